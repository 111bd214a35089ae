"""A model's weights and its optimizer's state: copied to host memory at once, written as a file of Keras's later.

`keras.Model.save_weights` reads the variables while it writes, so that training would have to wait for the disk. Here
Keras's own walk over the model says once which variables belong where in the file; from then on a copy costs what
copying memory costs, and what is written from it is written by Keras's own store: `keras.Model.load_weights` opens it.

Other ways were weighed. A clone of the model that holds the copies needs `get_config`, which subclassed models lack,
and the memory of the device twice. `keras.StatelessScope` gives variables other values in a thread of its own, but
no variable may be made in it, and Keras makes one whenever it walks over an optimizer; a layer that stores something
else than Keras variables would be read while it trains. `tf.train.Checkpoint` is no format that `load_weights` reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.saving import saving_lib

from tfdist.keras_repairs.unfailing_file import UnfailingFile
from tfdist.runtime.local_variables import local_variables

Metadata = Mapping[str, str] | None


@dataclass(frozen=True)
class _Group:
    """What one layer, metric or optimizer stores.

    Attributes:
        path: Where in the file.
        metadata: What the file says of it.
        values: Key -> a Keras variable, or whatever else is to be stored.
    """

    path: str
    metadata: Metadata
    values: dict[str, Any]


class WeightsCopy:
    """The latest copy of a model's weights and its optimizer's state, in host memory.

    The memory, as much as the file has, is kept for the next copy: to get it from the system anew takes longer than to
    fill it.

    Args:
        model: Built and compiled, with its optimizer.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._variables: list[keras.Variable] = []
        self._groups: list[_Group] = []
        self._is_known = False
        self._copies: list[_Group] = []

    def take(self) -> None:
        """Copies all values; between two batches, in the main thread, and while no `write` runs."""
        groups = self._current_groups()
        before = {(group.path, key): copy for group in self._copies for key, copy in group.values.items()}
        self._copies = [
            _Group(
                group.path,
                group.metadata,
                {key: _copied(value, before.get((group.path, key))) for key, value in group.values.items()},
            )
            for group in groups
        ]

    def write(self, file: Path) -> None:
        """Writes the latest copy; in any thread.

        Args:
            file: Its name ends in `.weights.h5`.

        Raises:
            OSError: It cannot be written.
        """
        disk = UnfailingFile(file)
        with contextlib.closing(disk), contextlib.closing(saving_lib.H5IOStore(disk, mode="w")) as store:
            for group in self._copies:
                entry = store.make(group.path, metadata=group.metadata and dict(group.metadata))
                for key, copy in group.values.items():
                    entry[key] = _Held(copy)
                    disk.check()
        disk.check()

    def _current_groups(self) -> list[_Group]:
        """From the last walk, where that still holds: a walk takes milliseconds for every layer."""
        variables = [*self._model.variables, *self._model.optimizer.variables]
        same = len(variables) == len(self._variables) and all(map(_is, variables, self._variables))
        if not (same and self._is_known):
            self._groups = [_with_variables(group, self._model) for group in _walk(self._model)]
            self._variables = variables
            values = [value for group in self._groups for value in group.values.values()]
            self._is_known = all(isinstance(value, keras.Variable) for value in values)
        return self._groups


class _Recorder(saving_lib.H5IOStore):
    """Stands in for a file while Keras walks over a model; notes what would be stored where."""

    def __init__(self) -> None:
        self.groups: list[_Group] = []

    def __bool__(self) -> bool:
        return True

    def make(self, path: str, metadata: Metadata = None) -> _Recorder:
        self.groups.append(_Group(path, metadata, {}))
        return self

    def __setitem__(self, key: str, value: Any) -> None:
        self.groups[-1].values[key] = value


class _Held:
    """An array that Keras's store takes as it is, rather than copy it once more."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array


def _walk(model: keras.Model) -> list[_Group]:
    """What Keras would store, in its order."""
    recorder = _Recorder()
    with local_variables():  # the other workers do not walk
        saving_lib._save_state(model, recorder, None, inner_path="", visited_saveables=set())
    return recorder.groups


def _with_variables(group: _Group, model: keras.Model) -> _Group:
    """Variables instead of the values that an optimizer stores, in the order that it stores them in."""
    optimizer = dict(_optimizers(model)).get(group.path)
    if optimizer is None or type(optimizer).save_own_variables is not keras.optimizers.Optimizer.save_own_variables:
        return group
    return _Group(group.path, group.metadata, dict(zip(group.values, optimizer.variables, strict=True)))


def _optimizers(model: keras.Model) -> Iterator[tuple[str, keras.optimizers.Optimizer]]:
    """The model's optimizer and the one inside of it, each with its place in a file."""
    yield "optimizer", model.optimizer
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        yield "optimizer/inner_optimizer", model.optimizer.inner_optimizer


def _copied(value: Any, into: np.ndarray | None) -> np.ndarray:
    """A copy of a variable, tensor or array in host memory: in `into`, where that has its shape and dtype."""
    if isinstance(value, keras.Variable):
        value = tf.convert_to_tensor(value.value)
    array = np.asarray(value)
    if into is None or into.shape != array.shape or into.dtype != array.dtype:
        return np.array(array)
    np.copyto(into, array)
    return into


def _is(one: object, other: object) -> bool:
    return one is other
