"""Sums of tensors over all workers of a job that shares memory: on one host, or on each of several."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.tensor_buckets import buckets_last_first
from tfdist.runtime.transport.ring_all_reduce import Ring
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations

_SUMMED = (tf.float64, tf.float32, tf.float16, tf.bfloat16, tf.int64, tf.int32)


class SharedMemorySums:
    """Sums tensors over the workers of one host.

    All workers must trace the same sums in the same order, as they do when they run the same program.

    Args:
        operations: Exchanges between the workers.
    """

    on_host = True

    def __init__(self, operations: MemoryOperations) -> None:
        self._operations = operations

    def takes(self, tensor: tf.Tensor | tf.IndexedSlices) -> bool:
        """Returns whether it sums this tensor."""
        return tensor.dtype in _SUMMED

    def sum(
        self, tensors: Sequence[tf.Tensor | tf.IndexedSlices], sent_as: tf.DType | None = None
    ) -> list[tf.Tensor | tf.IndexedSlices]:
        """The sum of each tensor over the workers, in a function or eagerly; call it on every worker.

        Sparse tensors stay sparse: their sum has the rows of all workers, one after another. Nothing is sent, so
        `sent_as` changes nothing.
        """
        result = list(tensors)
        dense = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.Tensor)]
        for bucket in buckets_last_first([tensors[i] for i in dense]):
            chosen = [dense[place] for place in bucket]
            totals = self._operations.reduce([_flat(tensors[i]) for i in chosen])
            for i, total in zip(chosen, totals, strict=True):
                result[i] = _shaped(total, tensors[i])
        for i, tensor in enumerate(tensors):
            if isinstance(tensor, tf.IndexedSlices):
                result[i] = self._joined_slices(tensor)
        return result

    def sum_now(self, array: NDArray) -> NDArray:
        """The sum of an array over the workers, outside of functions; it has one shape on all of them."""
        return self._operations.sum_now(array)

    def _joined_slices(self, slices: tf.IndexedSlices) -> tf.IndexedSlices:
        indices, values = self._operations.gather([_flat(slices.indices), _flat(slices.values)])
        rows = tf.reshape(values, tf.concat([[tf.size(indices)], tf.shape(slices.values)[1:]], 0))
        rows = tf.ensure_shape(rows, [None, *slices.values.shape[1:]])
        return tf.IndexedSlices(rows, indices, slices.dense_shape)


class HostSums:
    """Sums dense tensors over workers of several hosts, in functions: on each host first, then between the hosts.

    The first worker of each host sends the sum of its host, so a network carries it once a host instead of once a
    worker. Between the hosts it is TensorFlow's collectives, of which several are on the way at once.

    Args:
        operations: Exchanges between the workers of this host; None where this is the only one.
        hosts: How many hosts there are.
        workers: The indices of the workers of this host that share memory.

    Attributes:
        operations: As given.
        workers: As given.
    """

    on_host = True

    def __init__(self, operations: MemoryOperations | None, hosts: int, workers: Sequence[int] = ()) -> None:
        self.operations = operations
        self.workers = tuple(workers)
        self._ring = Ring(hosts, of_hosts=True)

    def takes(self, tensor: tf.Tensor | tf.IndexedSlices) -> bool:
        """Returns whether it sums this tensor here."""
        return isinstance(tensor, tf.Tensor) and tensor.dtype in _SUMMED and not tf.executing_eagerly()

    def sum(self, tensors: Sequence[tf.Tensor], sent_as: tf.DType | None = None) -> list[tf.Tensor]:
        """The sum of each tensor over all workers; call it in a `tf.function`, on every worker.

        Args:
            tensors: What is summed.
            sent_as: The dtype in which hosts send their sums; None for that of the tensors.
        """
        result = list(tensors)
        buckets = buckets_last_first(tensors)
        # All sums before the first copy: while one is on the way the next is taken.
        totals = [self._sum_of_host([_flat(tensors[i]) for i in bucket]) for bucket in buckets]
        if self.operations is None or self.operations.is_first:
            totals = [self._ring.sum(bucket, sent_as) for bucket in totals]
        if self.operations is not None:
            totals = [self.operations.copy(bucket) for bucket in totals]
        for bucket, of_bucket in zip(buckets, totals, strict=True):
            for i, total in zip(bucket, of_bucket, strict=True):
                result[i] = _shaped(total, tensors[i])
        return result

    def _sum_of_host(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if self.operations is None:
            return list(tensors)
        totals = self.operations.reduce(tensors)
        return [tf.ensure_shape(total, tensor.shape) for total, tensor in zip(totals, tensors, strict=True)]


def _flat(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tensor, [-1])


def _shaped(total: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.reshape(total, tf.shape(tensor)), tensor.shape)
