"""Small values: what all workers have said already, with the results that an engine would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.collectives.wire.engine import Channel, Reduction
from tfdist.runtime.collectives.wire.wire_dtypes import HALVES

_COMBINE: dict[Reduction, Callable[..., np.ndarray]] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


class KnownRows:
    """An engine that has heard what all workers are going to say: the bytes of their flat tensors, one after another.

    Args:
        contents: The bytes of each worker; shorter ones are those of a worker that gives nothing.
    """

    def __init__(self, contents: Sequence[bytes]) -> None:
        self._contents = contents
        self._read = 0

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        return tf.constant(_reduced(self._rows(flat), op))

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        return tf.constant(np.split(_reduced(self._rows(flat), op), len(channel.workers))[channel.place])

    def all_gather(self, flat: tf.Tensor, channel: Channel, progress: TracedProgress | None = None) -> tf.Tensor:
        """See `CollectiveEngine`."""
        return tf.constant(np.concatenate(self._rows(flat)))

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        parts = [np.split(row, len(channel.workers))[channel.place] for row in self._rows(flat)]
        return tf.constant(np.concatenate(parts))

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        return tf.constant(self._rows(flat)[root])

    def _rows(self, flat: tf.Tensor) -> list[np.ndarray]:
        """Returns what each worker says next."""
        dtype = flat.dtype.as_numpy_dtype
        size = flat.shape[0] * flat.dtype.size
        parts = [content[self._read : self._read + size] for content in self._contents]
        self._read += size
        return [np.frombuffer(part.ljust(size, b"\0"), dtype) for part in parts]


def _reduced(rows: Sequence[np.ndarray], op: Reduction) -> np.ndarray:
    """In the order of the workers, so that all of them get the same bits; halves in float32, rounded once."""
    dtype = rows[0].dtype
    wide = np.dtype(np.float32) if tf.as_dtype(dtype) in HALVES else dtype
    total = rows[0].astype(wide)
    with np.errstate(all="ignore"):
        for row in rows[1:]:
            total = _COMBINE[op](total, row.astype(wide))
        return total.astype(dtype)
