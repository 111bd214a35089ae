"""The facts that a metric knows of the call that it is updated or read in, with code of Keras's in between."""

from __future__ import annotations

import contextvars
import enum
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
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


@dataclass
class TrialPart:
    """The part of a batch with which a metric is being tried out.

    Attributes:
        samples: How many it has.
        share: By how much a scalar of it counts; None for as it is.
        has_scalars: Whether the metric took the mean or the sum of something that is not one value a sample.
        has_vectors: Whether that was a vector.
    """

    samples: int
    share: float | None
    has_scalars: bool = False
    has_vectors: bool = False

    def takes_for_scalar(self, shape: Sequence[int | None], *, is_function: bool) -> bool:
        """Notes the shape of what a metric takes the mean or the sum of; whether that is not one value a sample."""
        is_vector = is_function and len(shape) > 0 and shape[0] not in (None, self.samples)
        self.has_vectors |= is_vector
        self.has_scalars |= is_vector or len(shape) == 0
        return is_vector or len(shape) == 0


@dataclass(frozen=True)
class MetricScope:
    """The metric whose code runs.

    Attributes:
        is_known: Whether it is updated and known to add up or to be gathered; what it updates is a part of it.
        is_updated: Whether it is updated.
        gives_result: Whether it computes a result that is noted; those of its parts are its own matter.
        part: The part of a batch with which it is being tried out; None outside of a trial.
    """

    is_known: bool = False
    is_updated: bool = False
    gives_result: bool = False
    part: TrialPart | None = None


_OUTSIDE = MetricScope()

METRIC_SCOPE: contextvars.ContextVar[MetricScope] = contextvars.ContextVar("tfdist_metric_scope", default=_OUTSIDE)
