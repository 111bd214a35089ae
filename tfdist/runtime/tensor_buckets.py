"""Buckets: tensors that are sent together, in one operation."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

BUCKET_BYTES = 2 << 20
"""Smaller tensors of one dtype share a bucket up to this size; a larger one goes alone, without a copy."""


def by_dtype(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """The places of the tensors of each dtype."""
    indices: dict[tf.DType, list[int]] = {}
    for i, tensor in enumerate(tensors):
        indices.setdefault(tensor.dtype, []).append(i)
    return list(indices.values())


def buckets_of(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """The buckets of neighbours, each below `limit` elements; what is larger has one alone."""
    buckets: list[list[int]] = []
    room = 0
    for i, size in enumerate(sizes):
        if buckets and size <= room:
            buckets[-1].append(i)
            room -= size
        else:
            buckets.append([i])
            room = limit - size
    return buckets


def buckets_last_first(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """The buckets of some tensors, the last first: what comes last in a model has its gradient first.

    All of a bucket have one dtype, and no more than `BUCKET_BYTES` where there are several.
    """
    buckets = []
    for indices in by_dtype(tensors):
        indices.reverse()
        limit = BUCKET_BYTES // tensors[indices[0]].dtype.size
        sizes = [_size_of(tensors[i]) for i in indices]
        buckets += [[indices[place] for place in bucket] for bucket in buckets_of(sizes, limit)]
    return buckets


def _size_of(tensor: tf.Tensor) -> int:
    """Elements; of an unknown number more than any bucket has room for."""
    count = tensor.shape.num_elements()
    return BUCKET_BYTES if count is None else count
