"""Copies a model's weights and its optimizer's state to host memory, to be written as Keras's own file later.

`keras.Model.save_weights` reads the variables while it writes, so that training would have to wait for the disk. Here
Keras's own walk over the model finds once which variables belong where in the file; from then on a copy costs what
copying memory costs. The file is written by Keras's own store, and `keras.Model.load_weights` opens it.

Alternatives: a clone of the model that holds the copies needs `get_config`, which subclassed models lack, and twice the
memory of the device. `keras.StatelessScope` gives variables other values in a thread of its own, but no variable may be
made in it, and Keras makes one whenever it walks over an optimizer; a layer that stores anything but Keras variables
would be read while it trains. `load_weights` does not read `tf.train.Checkpoint`.
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

from tfdist.keras_repairs.files.hdf5_memory_file import MemoryFile
from tfdist.runtime.local_variables import local_variables

Metadata = Mapping[str, str] | None

_ROOM = 1 << 16
_ROOM_OF_A_GROUP = 1 << 13
"""Roughly the bytes that HDF5 takes for itself; memory that is not used costs nothing."""


@dataclass(frozen=True)
class _Group:
    """What one layer, metric or optimizer stores.

    Attributes:
        path: Its place in the file.
        metadata: Its metadata in the file.
        values: Key -> a Keras variable, or anything else that is stored.
    """

    path: str
    metadata: Metadata
    values: dict[str, Any]


class WeightsCopy:
    """The latest copy of a model's weights and its optimizer's state, in host memory, as a complete file.

    Keras's store writes that file in memory once. Further copies overwrite the values in it, without HDF5.

    Args:
        model: A model that is built and compiled, with its optimizer.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._variables: list[keras.Variable] = []
        self._groups: list[_Group] = []
        self._is_known = False
        self._layout: list[object] = []
        self._file = MemoryFile(0)
        self._places: list[NDArray[np.uint8]] | None = None

    def take(self) -> None:
        """Copies all values; between two batches, in the main thread, and while nobody reads `content`."""
        groups = self._current_groups()
        layout = [_layout(group) for group in groups]
        if self._places is None or layout != self._layout:
            self._places, self._file = None, MemoryFile(0)  # what was there is not needed beside the new one
            self._file = _written(groups)
            self._places = _places(self._file, groups)
            self._layout = layout
        else:
            for place, value in zip(self._places, _values(groups), strict=True):
                np.copyto(place, _bytes(value))

    def content(self) -> memoryview:
        """The latest copy as the bytes of a `.weights.h5`; in any thread. They change with the next `take`."""
        return self._file.content.data

    def _current_groups(self) -> list[_Group]:
        """The groups of the last walk, where they still hold: a walk takes milliseconds for every layer."""
        variables = [*self._model.variables, *self._model.optimizer.variables]
        same = len(variables) == len(self._variables) and all(map(_is, variables, self._variables))
        if not (same and self._is_known):
            self._groups = [_with_variables(group, self._model) for group in _walk(self._model)]
            self._variables = variables
            self._is_known = all(isinstance(value, keras.Variable) for value in _values(self._groups))
        return self._groups


class _Recorder(saving_lib.H5IOStore):
    """A store that records what Keras would write where, while it walks over a model."""

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
    """The groups that Keras would store, in its order."""
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
    """Writes the file by Keras's store."""
    values = sum(_array(value).nbytes for value in _values(groups))
    file = MemoryFile(values + _ROOM + _ROOM_OF_A_GROUP * len(groups))
    with contextlib.closing(saving_lib.H5IOStore(file, mode="w")) as store:
        for group in groups:
            entry = store.make(group.path, metadata=group.metadata and dict(group.metadata))
            for key, value in group.values.items():
                entry[key] = _array(value)
    return file


def _places(file: MemoryFile, groups: Sequence[_Group]) -> list[NDArray[np.uint8]] | None:
    """The bytes of each value in the file; None where one is not stored in one piece and uncompressed."""
    found = []
    with h5py.File(file, "r") as content:
        for name, value in _named(groups):
            here = _array(value)
            begin = content[name].id.get_offset() or 0
            there = file.content[begin : begin + here.nbytes]
            if zlib.crc32(there.data) != zlib.crc32(_bytes(here).data):
                return None
            found.append(there)
    return found


def _layout(group: _Group) -> object:
    """What the file's own bytes, and the places of the values in it, depend on."""
    return group.path, group.metadata, [(key, *_kind(value)) for key, value in group.values.items()]


def _kind(value: Any) -> tuple[tuple[int | None, ...], str]:
    """Shape and dtype. What Python alone knows, such as a list, has them as the array that is stored."""
    shaped = value if isinstance(value, keras.Variable) else _array(value)
    return tuple(shaped.shape), str(shaped.dtype)


def _named(groups: Sequence[_Group]) -> Iterator[tuple[str, Any]]:
    """Each value with its name in the file."""
    return ((f"{group.path}/vars/{key}", value) for group in groups for key, value in group.values.items())


def _values(groups: Sequence[_Group]) -> Iterator[Any]:
    return (value for _, value in _named(groups))


def _array(value: Any) -> np.ndarray:
    """A variable, tensor or array in host memory, copied only if it is not there already."""
    tensor = tf.convert_to_tensor(value.value) if isinstance(value, keras.Variable) else value
    # NumPy makes no array of a scalar tensor of bfloat16; its value is one of NumPy's scalars.
    return np.asarray(tensor.numpy() if isinstance(tensor, tf.Tensor) and not tensor.shape.rank else tensor)


def _bytes(value: Any) -> NDArray[np.uint8]:
    return np.ascontiguousarray(_array(value)).reshape(-1).view(np.uint8)


def _is(one: object, other: object) -> bool:
    return one is other
