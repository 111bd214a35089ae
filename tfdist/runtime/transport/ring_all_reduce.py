"""Sums tensors over workers in collectives of a size that suits the network: small ones in buckets, large ones cut.

For RING over gRPC alone, with one device a worker; NCCL takes TensorFlow's own path. TensorFlow runs collectives one
after another, in the order in which they were traced.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.tensor_buckets import BUCKET_BYTES, buckets_of, by_dtype

_SUBDIVISIONS = 64
"""Rings at most that TensorFlow runs at once over one tensor, in chunks of up to 4 MiB; by default it runs two."""

_GROUP_KEY = 741_000
"""Far above the keys that TensorFlow counts up for its own groups."""

_FIRST_KEY = _GROUP_KEY << 8
_FIRST_KEY_OF_HOSTS = 1 << 29
_FIRST_KEY_NOW = 1 << 30
"""The first keys of sums in functions, each of which keeps its key, and of sums outside, whose keys depend on their
sizes alone: TensorFlow keeps memory for every key, and workers may trace their functions at different times."""


class Ring:
    """Sums tensors over the workers of a cluster.

    All workers must trace the same sums in the same order, as they do when they run the same program.

    Args:
        workers: How many.
        of_hosts: Whether it is one worker a host that sums for all of this. Then sums do not wait for one another.
    """

    on_host = True

    def __init__(self, workers: int, *, of_hosts: bool = False) -> None:
        self._workers = workers
        self._of_hosts = of_hosts
        self._keys = itertools.count(_FIRST_KEY_OF_HOSTS if of_hosts else _FIRST_KEY)

    def takes(self, tensor: tf.Tensor | tf.IndexedSlices) -> bool:
        """Returns whether it sums this tensor here: dense ones, in a function."""
        return isinstance(tensor, tf.Tensor) and not tf.executing_eagerly()

    def sum(self, tensors: Sequence[tf.Tensor], sent_as: tf.DType | None = None) -> list[tf.Tensor]:
        """The sum of each tensor over the workers; call it in a `tf.function`, on every worker.

        Args:
            tensors: What is summed.
            sent_as: The dtype in which they are sent; None for their own. The sums have that of the tensors.
        """
        if sent_as is not None:
            totals = self.sum([tf.cast(tensor, sent_as) for tensor in tensors])
            return [tf.cast(total, tensor.dtype) for total, tensor in zip(totals, tensors, strict=True)]
        result: list[tf.Tensor | None] = [None] * len(tensors)
        for indices in by_dtype(tensors):
            chosen = [tensors[i] for i in indices]
            for i, total in zip(indices, self._sum_of_one_dtype(chosen), strict=True):
                result[i] = total
        return result

    def _sum_of_one_dtype(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
        if any(tensor.shape.num_elements() is None for tensor in tensors):
            totals = [self._reduce(tensor) for tensor in flat]
        else:
            totals = self._sum_in_buckets(flat)
        return [tf.reshape(total, tf.shape(tensor)) for total, tensor in zip(totals, tensors, strict=True)]

    def _sum_in_buckets(self, flat: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        totals: list[tf.Tensor] = []
        sizes = [tensor.shape[0] for tensor in flat]
        for bucket in buckets_of(sizes, BUCKET_BYTES // flat[0].dtype.size):
            if len(bucket) > 1:
                together = self._reduce(tf.concat([flat[i] for i in bucket], 0))
                totals += tf.split(together, [sizes[i] for i in bucket])
            else:
                totals.append(self._reduce(flat[bucket[0]]))
        return totals

    def _reduce(self, tensor: tf.Tensor) -> tf.Tensor:
        total = _reduce(tensor, next(self._keys), self._workers, _GROUP_KEY + self._of_hosts)
        manager = total.graph.experimental_acd_manager if self._of_hosts else None
        if manager is not None:
            # TensorFlow runs operations with effects one after another, those of shared memory among them.
            manager.run_independently(total.op)
        return total


def sum_now(integers: NDArray[np.int32], workers: int) -> NDArray[np.int32]:
    """The sum of an array over the workers; call it outside of functions, on every worker, with one shape on all.

    Workers with other shapes would wait for each other. It runs over the workers' CPUs, whatever they train on. The
    strategy's own `reduce` starts a pool of threads each time.
    """
    with tf.device("CPU:0"):
        return _reduce(tf.constant(integers), _FIRST_KEY_NOW + integers.size, workers).numpy()


def _reduce(tensor: tf.Tensor, key: int, workers: int, group: int = _GROUP_KEY) -> tf.Tensor:
    return tf.raw_ops.CollectiveReduceV2(
        input=tensor,
        group_size=workers,
        group_key=group,
        instance_key=key,
        ordering_token=[],
        merge_op="Add",
        final_op="Id",
        communication_hint="ring",
        # No timeout: TensorFlow would keep a sleeping thread for each. A watchdog bounds the waiting.
        timeout_seconds=0,
        max_subdivs_per_device=_SUBDIVISIONS,
    )
