"""Arrays in memory, and the choice between them and arrays that are mapped from files."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.data.fingerprints import Fingerprint, of_arrays
from tfdist.data.formats.mapped_arrays import MappedSamples, holds_mapped
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sample_source import SampleSource
from tfdist.errors import DataError


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
