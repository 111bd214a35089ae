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
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf
from keras.src.saving import saving_lib
from numpy.typing import NDArray

from tfdist.keras_repairs.memory_file import MemoryFile
from tfdist.runtime.local_variables import local_variables

Metadata = Mapping[str, str] | None

_ROOM = 1 << 16
_ROOM_OF_A_GROUP = 1 << 13
"""Bytes that HDF5 takes for itself, roughly; memory that is not used costs nothing."""


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
    """The latest copy of a model's weights and its optimizer's state, in host memory, as the file that it will be.

    Keras's store writes that file in memory, once. After that a copy goes to where the file has its values: there is no
    other one, and nobody waits for HDF5 again.

    Args:
        model: Built and compiled, with its optimizer.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._variables: list[keras.Variable] = []
        self._groups: list[_Group] = []
        self._file = MemoryFile(0)
        self._places: list[NDArray[np.uint8]] | None = None

    def take(self) -> None:
        """Copies all values; between two batches, in the main thread, and while nobody reads `content`."""
        variables = [*self._model.variables, *self._model.optimizer.variables]
        same = len(variables) == len(self._variables) and all(map(_is, variables, self._variables))
        if same and self._places is not None:
            for place, value in zip(self._places, _values(self._groups), strict=True):
                np.copyto(place, _bytes(value))
            return
        self._variables = variables
        self._groups = [_with_variables(group, self._model) for group in _walk(self._model)]
        self._file = _written(self._groups)
        self._places = _places(self._file, self._groups)

    def content(self) -> memoryview:
        """The latest copy as the bytes of a `.weights.h5`; in any thread. They change with the next `take`."""
        return self._file.content.data


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


def _written(groups: Sequence[_Group]) -> MemoryFile:
    """The file, by Keras's store."""
    values = sum(_array(value).nbytes for value in _values(groups))
    file = MemoryFile(values + _ROOM + _ROOM_OF_A_GROUP * len(groups))
    with contextlib.closing(saving_lib.H5IOStore(file, mode="w")) as store:
        for group in groups:
            entry = store.make(group.path, metadata=group.metadata and dict(group.metadata))
            for key, value in group.values.items():
                entry[key] = _array(value)
    return file


def _places(file: MemoryFile, groups: Sequence[_Group]) -> list[NDArray[np.uint8]] | None:
    """The bytes of each value in the file; None when one is no variable's, or does not lie there in one piece."""
    if not all(isinstance(value, keras.Variable) for value in _values(groups)):
        return None
    found = []
    with h5py.File(file, "r") as content:
        for name, value in _named(groups):
            here = _bytes(value)
            begin = content[name].id.get_offset() or 0
            there = file.content[begin : begin + here.size]
            if zlib.crc32(there) != zlib.crc32(here):
                return None
            found.append(there)
    return found


def _named(groups: Sequence[_Group]) -> Iterator[tuple[str, Any]]:
    """Each value with its name in the file."""
    return ((f"{group.path}/vars/{key}", value) for group in groups for key, value in group.values.items())


def _values(groups: Sequence[_Group]) -> Iterator[Any]:
    return (value for _, value in _named(groups))


def _array(value: Any) -> np.ndarray:
    """A variable, tensor or array in host memory; what is there already is not copied."""
    return np.asarray(tf.convert_to_tensor(value.value) if isinstance(value, keras.Variable) else value)


def _bytes(value: Any) -> NDArray[np.uint8]:
    return np.ascontiguousarray(_array(value)).reshape(-1).view(np.uint8)


def _is(one: object, other: object) -> bool:
    return one is other
