"""Groups of tensors that travel together."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

JOINED_BYTES = 2 << 20
"""Up to this size smaller tensors share an operation of `last_first`."""


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


def last_first(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """Returns which tensors travel together, the last first: what comes last in a model has its gradient first.

    All of a group have one dtype, and no more than `JOINED_BYTES` where there are several.
    """
    groups = []
    for indices in by_dtype(tensors):
        indices.reverse()
        limit = JOINED_BYTES // tensors[indices[0]].dtype.size
        groups += [
            [indices[place] for place in group] for group in joined([_size_of(tensors[i]) for i in indices], limit)
        ]
    return groups


def _size_of(tensor: tf.Tensor) -> int:
    """Elements; of an unknown number more than any group has room for."""
    count = tensor.shape.num_elements()
    return JOINED_BYTES if count is None else count
