"""Arrays in memory, and the choice between them and arrays that are mapped from files.

Arrays that stay on the disk: rows are read from a memory-mapped file as they are asked for.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.files.file_facts import changed_error
from tfdist.data.files.remote_files import stamp_of
from tfdist.data.fingerprints import Fingerprint, of_arrays
from tfdist.data.ops.sample_batches import by_python, read_batches
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sample_source import SampleSource
from tfdist.errors import DataError


class MappedSamples:
    """Structures of arrays with the samples along their first axis, at least one of them a `numpy.memmap`."""

    def __init__(self, arrays: Any, origin: str) -> None:
        """Takes the arrays and reads none of them; floating-point ones become float32 batch by batch, as in Keras.

        Args:
            arrays: `x`, or `(x, y)`.
            origin: The name of the arrays in errors.

        Raises:
            DataError: Arrays differ in their number of samples, have none, or hold neither numbers nor strings.
        """
        self._structure, self._origin = arrays, origin
        self._arrays = [np.asanyarray(array) for array in tf.nest.flatten(arrays)]
        self._size = _common_size(self._arrays)
        self._specs = [tf.TensorSpec([None, *array.shape[1:]], _dtype(array)) for array in self._arrays]
        self._stamps = {path: stamp_of(path) for path in map(_file_of, self._arrays) if path is not None}

    def __len__(self) -> int:
        return self._size

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        flat = read_batches(numbers.batches(), by_python(self._read, self._specs))
        return flat.map(lambda *arrays: tf.nest.pack_sequence_as(self._structure, arrays))

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return f"{self._origin}, sample {number}"

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_arrays(self._arrays, self._size)

    def _read(self, indices: NDArray[np.int64]) -> list[NDArray]:
        # Before each batch: reading past the end of a file that became shorter would kill the process.
        for path, stamp in self._stamps.items():
            if stamp_of(path) != stamp:
                raise changed_error(path)
        return [_rows(array, indices, spec.dtype) for array, spec in zip(self._arrays, self._specs, strict=True)]


def holds_mapped(arrays: Any) -> bool:
    """Returns whether an array of a structure is mapped from a file."""
    return any(_file_of(array) is not None for array in tf.nest.flatten(arrays))


def _rows(array: NDArray, indices: NDArray[np.int64], dtype: tf.DType) -> NDArray:
    """Rows of an array as TensorFlow takes them, with strings as UTF-8 bytes."""
    rows = np.asarray(array[indices])
    if dtype != tf.string:
        return rows.astype(dtype.as_numpy_dtype, copy=False)
    encoded = np.empty(rows.size, np.object_)
    encoded[:] = [text.encode() if isinstance(text, str) else text for text in rows.ravel().tolist()]
    return encoded.reshape(rows.shape)


def _file_of(array: Any) -> str | None:
    """The file that an array, or the one that it is a view of, is mapped from."""
    filename = array.filename if isinstance(array, np.memmap) else None
    return None if filename is None else os.fspath(filename)


def _common_size(arrays: list[NDArray]) -> int:
    if not all(array.ndim for array in arrays) or len({len(array) for array in arrays}) != 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise DataError(f"Expected arrays with the same number of samples. Received the shapes: {shapes}")
    if not len(arrays[0]):
        raise DataError("Expected at least one sample. Received: arrays of length 0.")
    return len(arrays[0])


def _dtype(array: NDArray) -> tf.DType:
    if array.dtype.kind == "f":
        return tf.float32
    if array.dtype.kind in "SU":
        return tf.string
    if array.dtype.kind not in "biu":
        raise DataError(f"Expected numbers or strings. Received: an array of type {array.dtype}.")
    return tf.as_dtype(array.dtype.newbyteorder("="))


class ArraySamples:
    """Arrays in memory, or structures of arrays, with the samples along their first axis."""

    def __init__(self, x: Any, y: Any = None, origin: str = "the arrays") -> None:
        """Takes the arrays; floating-point ones become float32, as in Keras. Errors name them by their `origin`.

        Raises:
            DataError: The arrays differ in their number of samples, have none, or cannot be tensors.
        """
        with tf.device("CPU:0"):
            self._arrays = tf.nest.map_structure(_tensor, x if y is None else (x, y))
        tensors = tf.nest.flatten(self._arrays)
        sizes = {len(tensor) for tensor in tensors}
        if len(sizes) != 1:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
            raise DataError(f"Expected arrays with the same number of samples. Received the shapes: {shapes}")
        (self._size,) = sizes
        if not self._size:
            raise DataError("Expected at least one sample. Received: arrays of length 0.")
        self._origin = origin

    def __len__(self) -> int:
        return self._size

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return numbers.batches().map(
            lambda batch: tf.nest.map_structure(lambda array: tf.gather(array, batch), self._arrays)
        )

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return f"{self._origin}, sample {number}"

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_arrays(tf.nest.flatten(self._arrays), self._size)


def array_source(x: Any, y: Any = None, origin: str = "the arrays") -> SampleSource:
    """Arrays in memory or mapped from files; `origin` names them in errors."""
    arrays = x if y is None else (x, y)
    return MappedSamples(arrays, origin) if holds_mapped(arrays) else ArraySamples(x, y, origin)


def _tensor(array: Any) -> tf.Tensor:
    array = np.asarray(array)
    if not array.ndim:
        raise DataError(f"Expected an array with samples along its first axis. Received: {array!r}")
    try:
        return tf.convert_to_tensor(array.astype(np.float32) if array.dtype.kind == "f" else array)
    except (TypeError, ValueError) as error:
        raise DataError(f"Expected numbers or strings. Received: an array of type {array.dtype}.") from error
