"""The engine in memory that the workers of one host share."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.collectives.wire.engine import Channel, Reduction
from tfdist.runtime.collectives.wire.groups import EVERYONE, is_pair
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations
from tfdist.runtime.transport.shared_memory.shared_memory import SharedMemory


class SharedMemoryEngine:
    """Runs collectives in shared memory; see `CollectiveEngine`.

    Exchanges over one set of links come in one order on all its workers. Two groups that share a worker may come in
    either, and so may the two directions between two workers, and a call that nobody waits for beside steps: all of
    these have links of their own.

    Args:
        memory: What the workers share.
    """

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        (total,) = self._operations(channel).reduce([flat], op)
        return tf.ensure_shape(total, flat.shape)

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        total = self.all_reduce(flat, op, channel)
        return tf.reshape(total, [len(channel.workers), -1])[channel.place]

    def all_gather(self, flat: tf.Tensor, channel: Channel, progress: TracedProgress | None = None) -> tf.Tensor:
        """See `CollectiveEngine`."""
        size = flat.shape[0]
        around = contextlib.nullcontext if progress is None else progress.exchanging
        (gathered,) = self._operations(channel).gather([flat], around)
        return tf.ensure_shape(gathered, [None if size is None else len(channel.workers) * size])

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        return tf.ensure_shape(self._operations(channel).deal(flat), flat.shape)

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        (copy,) = self._operations(channel).copy([flat], root)
        return tf.ensure_shape(copy, flat.shape)

    def _operations(self, channel: Channel) -> MemoryOperations:
        """The exchanges for these workers, and for calls in functions or outside."""
        is_eager = tf.executing_eagerly()
        if channel.group_key == EVERYONE:
            return self._memory.of_calls if is_eager else self._memory.of_functions
        group = f"{channel.group_key} {'outside of' if is_eager else 'in'} functions"
        return self._memory.of_groups.of(group, channel.workers, channel.place, is_pair=is_pair(channel.group_key))
