"""Large values of a file of weights, read where they are used: a variable takes of one what this worker holds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import h5py
import numpy as np
import tensorflow as tf
from keras.src.saving import saving_lib
from numpy.typing import NDArray

from tfdist.keras_repairs.files.arrays.stored_values import dataset_of
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count
from tfdist.sharding.sharding_mode import WHOLE_BELOW


class LateArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A value of a file that is read in full where it is used as an array, and by rows where a range of them is taken.

    Args:
        dataset: Its place; the file is open as long as this is used.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self.dataset = dataset
        self.shape, self.dtype, self.ndim, self.size = dataset.shape, dataset.dtype, dataset.ndim, dataset.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self.dataset[()], dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*(np.asarray(x) if x is self else x for x in inputs), **kwargs)

    def __getitem__(self, which: Any) -> Any:
        rows = isinstance(which, slice) and which.step is None
        return self.dataset[which] if rows else np.asarray(self)[which]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        """All else that arrays have."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


@contextlib.contextmanager
def late_values() -> Iterator[None]:
    """Inside, a file of weights gives layers large values as `LateArray`, where workers may have shards of weights."""
    settings = settings_of(tf.distribute.get_strategy())
    has_cut = settings.shard is not None and settings.shard.cuts_parameters
    has_tables = settings.has_tables or settings.shard_embeddings is not None
    if worker_count(tf.distribute.get_strategy()) == 1 or not (has_cut or has_tables):
        yield
        return
    original = saving_lib.H5IOStore.__getitem__

    def value(self: Any, key: str) -> Any:
        # What is in one of several files is read before the next is opened.
        found = dataset_of(self, key) if type(self) is saving_lib.H5IOStore else None
        return original(self, key) if found is None or found.size < WHOLE_BELOW else LateArray(found)

    with mock.patch.object(saving_lib.H5IOStore, "__getitem__", value):
        yield
