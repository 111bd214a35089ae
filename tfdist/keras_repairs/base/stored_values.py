"""Values of a file of weights, read where they are used: each worker takes its shard of them, and nothing else.

Keras's store makes an array of all that it is asked for.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any
from unittest import mock

import h5py
import numpy as np
import tensorflow as tf
from keras.src.saving import saving_lib
from numpy.typing import NDArray

from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import worker_count
from tfdist.sharding.cut import Cut
from tfdist.sharding.sharding_mode import WHOLE_BELOW


def stored_value(store: Any, key: str) -> Any:
    """A value of a store of Keras.

    Args:
        store: What `load_own_variables` is given.
        key: The value's.

    Returns:
        An `h5py.Dataset`, of which nothing is read yet, where the store is a file of HDF5; else what the store says.
    """
    found = dataset_of(store, key)
    return store[key] if found is None else found


def dataset_of(store: Any, key: str) -> h5py.Dataset | None:
    """A value's place in a file of HDF5, as Keras finds it: it refuses one that leads out of the file. Else None."""
    group = getattr(store, "_h5_entry_group", None)
    if group is None or key not in group:
        return None
    if hasattr(saving_lib, "safe_get_h5_dataset"):
        found = saving_lib.safe_get_h5_dataset(group, key)
    elif hasattr(store, "_verify_dataset"):
        found = store._verify_dataset(group[key])
    else:
        return None
    # HDF5 has no bfloat16: Keras says what its bytes are.
    return None if "dtype" in found.attrs else found


def read_shard(source: Any, cut: Cut, worker: int) -> NDArray:
    """A worker's shard of a value.

    Args:
        source: An array or a tensor; or a dataset of a file or `ValuesInParts`, of which the shard alone is read, and
            all of the rows in which it begins and ends.
        cut: How it is cut; of the shape of `source`.
        worker: Whose.

    Returns:
        The shard, of the shape that the cut says.
    """
    start, stop = cut.span(worker)
    shape = cut.shard_shape(worker)
    if not isinstance(source, h5py.Dataset | ValuesInParts):
        source = np.asarray(source)
    if start == stop:
        return np.empty(shape, source.dtype)
    if stop - start == cut.size:
        return np.asarray(source[()]).reshape(shape)
    row = cut.row_size
    first, last = start // row, -(-stop // row)
    rows = np.asarray(source[first:last]).reshape(-1)
    return rows[start - first * row : stop - first * row].reshape(shape)


class ValuesInParts(ABC):
    """Values of which those in a part are made where that is read.

    Attributes:
        shape: Of all of them.
        dtype: As NumPy names it.
    """

    shape: tuple[int, ...]
    dtype: Any

    @abstractmethod
    def __getitem__(self, index: Any) -> NDArray:
        """The values in a part, which one or several slices say; `()` says all of it."""


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
