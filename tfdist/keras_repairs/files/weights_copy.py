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
from unittest import mock

import h5py
import keras
import numpy as np
import tensorflow as tf
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.saving import saving_lib
from numpy.typing import NDArray

from tfdist.keras_repairs.files.hdf5_files import MemoryFile
from tfdist.runtime.workers import local_variables

Metadata = Mapping[str, str] | None


@dataclass(frozen=True)
class Group:
    """The values that one layer, metric or optimizer stores.

    Attributes:
        path: Its place in the file.
        metadata: Its metadata in the file.
        values: Key -> a Keras variable, or anything else that is stored.
    """

    path: str
    metadata: Metadata
    values: dict[str, Any]


class WeightsWalk:
    """The groups of a model and its optimizer, in Keras's order.

    Args:
        model: Built and compiled, with its optimizer.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._variables: list[keras.Variable] = []
        self._groups: list[Group] = []
        self._is_known = False

    def groups(self) -> list[Group]:
        """Those of the last walk, where they still hold: a walk takes milliseconds for every layer."""
        variables = [*self._model.variables, *self._model.optimizer.variables]
        same = len(variables) == len(self._variables) and all(map(_is, variables, self._variables))
        if not (same and self._is_known):
            self._groups = _walk(self._model)
            self._variables = variables
            self._is_known = all(isinstance(value, keras.Variable) for value in values_of(self._groups))
        return self._groups


class _Recorder(saving_lib.H5IOStore):
    """A store that records what Keras would write where, while it walks over a model."""

    def __init__(self) -> None:
        self.groups: list[Group] = []

    def __bool__(self) -> bool:
        return True

    def make(self, path: str, metadata: Metadata = None) -> _Recorder:
        self.groups.append(Group(path, metadata, {}))
        return self

    def __setitem__(self, key: str, value: Any) -> None:
        self.groups[-1].values[key] = value


def _walk(model: keras.Model) -> list[Group]:
    recorder = _Recorder()
    # The other workers do not walk, or do so too, and each for itself.
    with local_variables(), mock.patch.object(BaseOptimizer, "save_own_variables", _save_own_variables):
        saving_lib._save_state(model, recorder, None, inner_path="", visited_saveables=set())
    return recorder.groups


def _save_own_variables(self: Any, store: Any) -> None:
    """As an optimizer of Keras does, with its variables instead of their values."""
    for number, variable in enumerate(self.variables):
        store[str(number)] = variable


def write_groups(file: Any, groups: Sequence[Group], arrays: Iterator[Any]) -> None:
    """Writes a file by Keras's store.

    Args:
        file: An `io.BytesIO`.
        groups: What is stored.
        arrays: What is written for each value, in the order of `values_of`.
    """
    with contextlib.closing(saving_lib.H5IOStore(file, mode="w")) as store:
        for group in groups:
            entry = store.make(group.path, metadata=group.metadata and dict(group.metadata))
            for key in group.values:
                entry[key] = next(arrays)


def layout_of(group: Group) -> object:
    """Returns what the file's own bytes, and the places of the values in it, depend on."""
    return group.path, group.metadata, [(key, *_kind(value)) for key, value in group.values.items()]


def named(groups: Sequence[Group]) -> Iterator[tuple[str, Any]]:
    """Each value with its name in the file."""
    return ((f"{group.path}/vars/{key}", value) for group in groups for key, value in group.values.items())


def values_of(groups: Sequence[Group]) -> Iterator[Any]:
    """All values."""
    return (value for _, value in named(groups))


def array_of(value: Any) -> np.ndarray:
    """A variable, tensor or array in host memory, copied only if it is not there already."""
    tensor = tf.convert_to_tensor(value.value) if isinstance(value, keras.Variable) else value
    # NumPy makes no array of a scalar tensor of bfloat16; its value is one of NumPy's scalars.
    return np.asarray(tensor.numpy() if isinstance(tensor, tf.Tensor) and not tensor.shape.rank else tensor)


def bytes_of(value: Any) -> NDArray[np.uint8]:
    """The bytes of what `array_of` returns."""
    return np.ascontiguousarray(array_of(value)).reshape(-1).view(np.uint8)


def _kind(value: Any) -> tuple[tuple[int | None, ...], str]:
    """Shape and dtype. What Python alone knows, such as a list, has them as the array that is stored."""
    shaped = value if isinstance(value, keras.Variable) else array_of(value)
    return tuple(shaped.shape), str(shaped.dtype)


def _is(one: object, other: object) -> bool:
    return one is other


_ROOM = 1 << 16
_ROOM_OF_A_GROUP = 1 << 13
"""Roughly the bytes that HDF5 takes for itself; memory that is not used costs nothing."""


class WeightsCopy:
    """The latest copy of a model's weights and its optimizer's state, in host memory, as a complete file.

    Keras's store writes that file in memory once. Further copies overwrite the values in it, without HDF5.

    Args:
        model: A model that is built and compiled, with its optimizer.
    """

    def __init__(self, model: keras.Model) -> None:
        self._walk = WeightsWalk(model)
        self._layout: list[object] = []
        self._file = MemoryFile(0)
        self._places: list[NDArray[np.uint8]] | None = None

    def take(self) -> None:
        """Copies all values; between two batches, in the main thread, and while nobody reads `content`."""
        groups = self._walk.groups()
        layout = [layout_of(group) for group in groups]
        if self._places is None or layout != self._layout:
            self._places, self._file = None, MemoryFile(0)  # what was there is not needed beside the new one
            self._file = _written(groups)
            self._places = _places(self._file, groups)
            self._layout = layout
        else:
            for place, value in zip(self._places, values_of(groups), strict=True):
                np.copyto(place, bytes_of(value))

    def content(self) -> memoryview:
        """The latest copy as the bytes of a `.weights.h5`; in any thread. They change with the next `take`."""
        return self._file.content.data


def _written(groups: Sequence[Group]) -> MemoryFile:
    values = sum(array_of(value).nbytes for value in values_of(groups))
    file = MemoryFile(values + _ROOM + _ROOM_OF_A_GROUP * len(groups))
    write_groups(file, groups, map(array_of, values_of(groups)))
    return file


def _places(file: MemoryFile, groups: Sequence[Group]) -> list[NDArray[np.uint8]] | None:
    """The bytes of each value in the file; None where one is not stored in one piece and uncompressed."""
    found = []
    with h5py.File(file, "r") as content:
        for name, value in named(groups):
            here = array_of(value)
            begin = content[name].id.get_offset() or 0
            there = file.content[begin : begin + here.nbytes]
            if zlib.crc32(there.data) != zlib.crc32(bytes_of(here).data):
                return None
            found.append(there)
    return found
