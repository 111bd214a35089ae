"""The engine in memory that the workers of one host share; for parts of them, those of TensorFlow's collectives."""

from __future__ import annotations

import tensorflow as tf

from tfdist.runtime.collectives.groups import EVERYONE
from tfdist.runtime.collectives.wire.engine import Channel, CollectiveEngine, Reduction
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations


class SharedMemoryEngine:
    """Runs the collectives of all workers in shared memory; see `CollectiveEngine`.

    Those of a part of the workers go over another engine: exchanges in one memory come in one order on all workers, and
    two groups that share a worker may come in either.

    Args:
        traced: Exchanges in functions, which have one order with the steps' own.
        eager: Exchanges outside of functions, over links of their own: a call that nobody waits for runs beside steps.
        of_parts: The engine of groups that are not all workers.
    """

    def __init__(self, traced: MemoryOperations, eager: MemoryOperations, of_parts: CollectiveEngine) -> None:
        self._traced = traced
        self._eager = eager
        self._of_parts = of_parts

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        operations = self._operations(channel)
        if operations is None:
            return self._of_parts.all_reduce(flat, op, channel)
        (total,) = operations.reduce([flat], op)
        return tf.ensure_shape(total, flat.shape)

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        if self._operations(channel) is None:
            return self._of_parts.reduce_scatter(flat, op, channel)
        total = self.all_reduce(flat, op, channel)
        return tf.reshape(total, [len(channel.workers), -1])[channel.place]

    def all_gather(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        operations = self._operations(channel)
        if operations is None:
            return self._of_parts.all_gather(flat, channel)
        size = flat.shape[0]
        return tf.ensure_shape(operations.gather(flat), [None if size is None else len(channel.workers) * size])

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        operations = self._operations(channel)
        if operations is None:
            return self._of_parts.all_to_all(flat, channel)
        return tf.ensure_shape(operations.deal(flat), flat.shape)

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        operations = self._operations(channel)
        if operations is None:
            return self._of_parts.broadcast(flat, root, channel)
        (copy,) = operations.copy([flat], root)
        return tf.ensure_shape(copy, flat.shape)

    def _operations(self, channel: Channel) -> MemoryOperations | None:
        """The exchanges for these workers; None where they are not all, or two of which one sends to the other.

        Calls between two come in an order of their own for each direction, beside those of all workers.
        """
        if channel.group_key != EVERYONE:
            return None
        return self._eager if tf.executing_eagerly() else self._traced
