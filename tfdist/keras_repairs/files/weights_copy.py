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

import zlib
from collections.abc import Sequence

import h5py
import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.files.hdf5_memory_file import MemoryFile
from tfdist.keras_repairs.files.weights_walk import (
    Group,
    WeightsWalk,
    array_of,
    bytes_of,
    layout_of,
    named,
    values_of,
    write_groups,
)

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
