"""Which tensors travel together."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def by_dtype(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """The places of the tensors of each dtype."""
    indices: dict[tf.DType, list[int]] = {}
    for i, tensor in enumerate(tensors):
        indices.setdefault(tensor.dtype, []).append(i)
    return list(indices.values())


def joined(sizes: Sequence[int], limit: int) -> list[list[int]]:
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
