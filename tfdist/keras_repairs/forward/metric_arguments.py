"""The arguments with which a metric is updated: which of them have a row for each sample."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Sequence
from typing import Any

import tensorflow as tf
from keras.src import backend


class Kind(enum.Enum):
    """The relation of one argument of `update_state` to the samples of a batch."""

    ROWS = "a tensor whose first dimension is that of the samples"
    SCALAR = "a scalar that the replica has computed"
    FIXED = "a tensor that has another first dimension"
    CONSTANT = "the same on every replica"


def kinds_of(leaves: Sequence[Any]) -> list[Kind]:
    """The kind of each argument. The samples' dimension is that of unknown size, else that of the first tensor."""
    sizes = [_first_size(leaf) for leaf in leaves if _is_tensor(leaf) and leaf.shape.rank != 0]
    samples = None if None in sizes or not sizes else sizes[0]
    return [_kind_of(leaf, samples) for leaf in leaves]


def _kind_of(leaf: Any, samples: int | None) -> Kind:
    if not _is_tensor(leaf):
        return Kind.CONSTANT
    if leaf.shape.rank != 0 and _first_size(leaf) == samples:
        return Kind.ROWS
    if is_written_down(leaf):
        return Kind.CONSTANT
    return Kind.SCALAR if leaf.shape.rank == 0 else Kind.FIXED


def likeness_of_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable | None:
    """Returns what a trial takes from the arguments of an update: all but the numbers in tensors, and how many samples.

    Returns:
        A value that is equal for two updates only where a trial takes the same; None where that cannot be told.
    """
    leaves = tf.nest.flatten((args, kwargs))
    if not all(_is_tensor(leaf) or isinstance(leaf, bool | int | float | str | type(None)) for leaf in leaves):
        return None
    described = [_described(leaf, kind) for leaf, kind in zip(leaves, kinds_of(leaves), strict=True)]
    return repr(tf.nest.pack_sequence_as((args, kwargs), described))


def _described(leaf: Any, kind: Kind) -> str:
    if not _is_tensor(leaf):
        return repr(leaf)
    shape = leaf.shape if leaf.shape.rank is None or kind is not Kind.ROWS else leaf.shape[1:]
    mask = backend.get_keras_mask(leaf)
    value = tf.get_static_value(leaf).tobytes() if kind is Kind.CONSTANT else None
    return repr((type(leaf), kind, leaf.dtype, shape, None if mask is None else mask.shape.rank, value))


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor | tf.RaggedTensor | tf.SparseTensor)


def is_written_down(leaf: Any) -> bool:
    """Returns whether the value of a tensor is known while a step is traced, and so the same on every replica."""
    # Eagerly every value is known, and yet each replica's own.
    is_eager = not isinstance(leaf, tf.Tensor) or hasattr(leaf, "numpy")
    return not is_eager and tf.get_static_value(leaf) is not None


def _first_size(leaf: Any) -> int | None:
    return None if leaf.shape.rank is None else leaf.shape[0]
