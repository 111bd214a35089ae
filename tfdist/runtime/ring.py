"""Sums over workers as collectives of a size that suits the network: large tensors are cut, small ones joined.

For RING over gRPC alone, with one device a worker; NCCL keeps TensorFlow's path. TensorFlow runs collectives one after
another, in the order in which they were traced.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import tensorflow as tf

PIECE_BYTES = 2 << 20
"""Size of one collective: large tensors are cut, small ones joined."""

_GROUP_KEY = 741_000
"""Far above the keys that TensorFlow counts up for its own groups."""


class Ring:
    """The workers of one cluster, summing tensors.

    All workers must trace the same sums in the same order, as they do when they run the same program.

    Args:
        workers: How many.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._keys = itertools.count(1)

    def sum(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The sum of each tensor over the workers; call it in a `tf.function`, on every worker."""
        result: list[tf.Tensor | None] = [None] * len(tensors)
        for indices in _by_dtype(tensors):
            chosen = [tensors[i] for i in indices]
            for i, total in zip(indices, self._sum_of_one_dtype(chosen), strict=True):
                result[i] = total
        return result

    def _sum_of_one_dtype(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
        if any(tensor.shape.num_elements() is None for tensor in tensors):
            totals = [self._sum_piece(tensor) for tensor in flat]
        else:
            totals = self._sum_pieces(flat)
        return [tf.reshape(total, tf.shape(tensor)) for total, tensor in zip(totals, tensors, strict=True)]

    def _sum_pieces(self, flat: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        limit = PIECE_BYTES // flat[0].dtype.size
        totals: list[tf.Tensor | None] = [None] * len(flat)
        for group in _groups([tensor.shape[0] for tensor in flat], limit):
            if len(group) > 1:
                joined = self._sum_piece(tf.concat([flat[i] for i in group], 0))
                for i, part in zip(group, tf.split(joined, [flat[i].shape[0] for i in group]), strict=True):
                    totals[i] = part
            else:
                (i,) = group
                pieces = [self._sum_piece(piece) for piece in _cut(flat[i], limit)]
                totals[i] = tf.concat(pieces, 0) if len(pieces) > 1 else pieces[0]
        return totals

    def _sum_piece(self, piece: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.CollectiveReduceV2(
            input=piece,
            group_size=self._workers,
            group_key=_GROUP_KEY,
            instance_key=next(self._keys) + (_GROUP_KEY << 8),
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="ring",
            # No timeout: for each, TensorFlow keeps a thread asleep until then. A watchdog bounds the waiting.
            timeout_seconds=0,
        )


def _by_dtype(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    indices: dict[tf.DType, list[int]] = {}
    for i, tensor in enumerate(tensors):
        indices.setdefault(tensor.dtype, []).append(i)
    return list(indices.values())


def _groups(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Joins neighbours as long as they stay below `limit` together; what is larger stands alone."""
    groups: list[list[int]] = []
    room = 0
    for i, size in enumerate(sizes):
        if groups and size <= room:
            groups[-1].append(i)
            room -= size
        else:
            groups.append([i])
            room = limit - size
    return groups


def _cut(flat: tf.Tensor, limit: int) -> list[tf.Tensor]:
    count = math.ceil(flat.shape[0] / limit)
    if count <= 1:
        return [flat]
    return [flat[i * limit : (i + 1) * limit] for i in range(count)]
