"""The engines: TensorFlow's collectives, and memory that the workers of one host share.

Between GPUs it is NCCL's, whose kernels wait for one another in one queue a GPU: all collectives of all workers have to
come to it in one order, whatever their groups, or the job stands still. The order is guaranteed so:

- In a function each takes a resource, that of TensorFlow's own collectives under the strategy. TensorFlow runs
  operations that share a resource in the order in which they were traced, which is that of the program.
- Outside of functions they run in the main thread, or in another one that the main thread waits for, and so one after
  another and beside no function. TensorFlow returns when this worker's kernel is over.
- What comes in no such order stays on the ring, whose operations may wait side by side: calls that nobody waits for,
  those of other threads, and those in graphs whose operations TensorFlow does not order. `placement` decides it, and
  all workers of a call agree on it before it runs.

So a collective waits for those alone that come before it in the program, as with calls that all wait.
"""

from __future__ import annotations

import contextlib
from typing import Any

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


_MERGE = {"sum": "Add", "product": "Mul", "max": "Max", "min": "Min"}
_COMBINE = {"sum": tf.add, "product": tf.multiply, "max": tf.maximum, "min": tf.minimum}

HOST = "CPU:0"

_SUBDIVISIONS = 64
"""Rings at most that TensorFlow runs at once over one tensor; by default it runs two."""


class TensorFlowEngine:
    """Runs CollectiveReduceV2 and its kin; see `CollectiveEngine`.

    Args:
        device: The device of this worker that takes part.
        implementation: `"ring"` or `"nccl"`, as TensorFlow calls them.
        order: A resource by which functions run all that takes it in the order in which it was traced; None where
            operations may wait side by side.

    Attributes:
        device: As given.
    """

    def __init__(self, device: str = HOST, implementation: str = "ring", order: tf.Tensor | None = None) -> None:
        self.device = device
        self._implementation = implementation
        self._order = order

    def all_reduce(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        with tf.device(self.device):
            return tf.raw_ops.CollectiveReduceV2(
                input=flat,
                merge_op=_MERGE[op],
                final_op="Id",
                max_subdivs_per_device=_SUBDIVISIONS,
                **self._common(channel),
            )

    def reduce_scatter(self, flat: tf.Tensor, op: Reduction, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`. CollectiveReduceScatterV2 has no kernel for CPUs: trying it aborts all workers."""
        parts = tf.reshape(self.all_to_all(flat, channel), [len(channel.workers), -1])
        with tf.device(self.device):
            total, *others = tf.unstack(parts)
            for part in others:
                total = _COMBINE[op](total, part)
        return total

    def all_gather(self, flat: tf.Tensor, channel: Channel, progress: TracedProgress | None = None) -> tf.Tensor:
        """See `CollectiveEngine`."""
        with tf.device(self.device):
            # TensorFlow runs operations with effects, such as these three, in the order in which they are traced.
            if progress is not None:
                progress.begin()
            gathered = tf.raw_ops.CollectiveGatherV2(input=flat, **self._common(channel))
            if progress is not None:
                with tf.control_dependencies([gathered]):
                    progress.end()
            rows = _permuted(tf.reshape(gathered, [len(channel.workers), -1]), _ranks(channel))
        # The operation forgets its static shape.
        return tf.ensure_shape(tf.reshape(rows, [-1]), [_times(flat.shape[0], len(channel.workers))])

    def all_to_all(self, flat: tf.Tensor, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`."""
        with tf.device(self.device):
            table = _permuted(tf.reshape(flat, [len(channel.workers), -1]), _places(channel))
            exchanged = tf.raw_ops.CollectiveAllToAllV2(input=table, **self._common(channel))
            rows = _permuted(exchanged, _ranks(channel))
        return tf.ensure_shape(tf.reshape(rows, [-1]), flat.shape)

    def broadcast(self, flat: tf.Tensor, root: int, channel: Channel) -> tf.Tensor:
        """See `CollectiveEngine`.

        A sum of integers in which all other summands are zero copies bits. It takes as long as TensorFlow's broadcast,
        of which two in one function have been seen to wait for ever.
        """
        with tf.device(self.device):
            own = flat if channel.place == root else tf.zeros_like(flat)
        return self.all_reduce(own, "sum", channel)

    def _common(self, channel: Channel) -> dict[str, Any]:
        return {
            "group_size": len(channel.workers),
            # TensorFlow binds a key to one kind of device.
            "group_key": channel.group_key if self.device == HOST else -channel.group_key,
            "instance_key": channel.key,
            "ordering_token": [] if self._order is None else [self._order],
            "communication_hint": self._implementation,
            # No timeout: TensorFlow would keep a sleeping thread for each. A watchdog bounds the waiting.
            "timeout_seconds": 0,
        }


def _places(channel: Channel) -> list[int]:
    """The place of each of TensorFlow's ranks: it orders the workers of a group as texts, 10 before 2."""
    return sorted(range(len(channel.workers)), key=lambda place: str(channel.workers[place]))


def _ranks(channel: Channel) -> list[int]:
    places = _places(channel)
    return sorted(range(len(places)), key=places.__getitem__)


def _permuted(rows: tf.Tensor, order: list[int]) -> tf.Tensor:
    return rows if order == sorted(order) else tf.gather(rows, order)


def _times(size: int | None, count: int) -> int | None:
    return None if size is None else size * count
