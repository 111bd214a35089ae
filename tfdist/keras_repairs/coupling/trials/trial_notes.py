"""The facts known of code that is tried out, and the notes on it where nothing is written, updated or applied."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.coupling.trials.split_comparison import ROWS, UNEQUAL, Split, is_of_own_rows, is_same


@dataclass(frozen=True)
class Write:
    """The values that were to be written at once.

    Attributes:
        what: By what, as the user calls it.
        values: Arrays and ragged tensors, and what else was written, as it is; None where nobody knows a value yet.
    """

    what: str
    values: Sequence[Any]


@dataclass(frozen=True)
class Update:
    """The update that an optimizer would have applied.

    Attributes:
        optimizer: Its name.
        gradients: One for each of `variables`: a tensor, slices or None.
        variables: Their paths.
    """

    optimizer: str
    gradients: Sequence[Any]
    variables: Sequence[str]


@dataclass(frozen=True)
class Reading:
    """The values with which a mean or a sum was updated.

    Attributes:
        metric: Its name.
        key: Its id.
        values: A tensor or a number.
        weight: Likewise, or None.
        counted: The values and weights with which it counts them: by the samples of a replica where they are not those
            of single samples.
        is_of_all: Whether it is of all rows, also where the step has a part of them.
    """

    metric: str
    key: int
    values: Any
    weight: Any
    counted: tuple[Any, Any]
    is_of_all: bool


@dataclass
class Capture:
    """The updates and readings that were captured so far, in their order.

    Attributes:
        scale: By how much gradients are larger than they are, so that code which clips them does.
        terms: By how much terms are larger that layers have added.
        reads_terms: Whether such a term was read.
        updates: What optimizers get.
        readings: What means and sums of metrics get.
    """

    scale: float
    terms: float = 1.0
    reads_terms: bool = False
    updates: list[Update] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)


@dataclass(frozen=True)
class TrialScope:
    """The code that is tried out.

    Attributes:
        rows: How many rows it has: those of the whole batch, or of a part.
        total: How many the whole batch has.
        is_of_replicas: Whether it is tried out as on one replica and as on two.
        recording: The `Recording` of the layer that is tried out.
        capture: What a step would give to optimizers and metrics.
        captures_readings: Whether what it gives to metrics is captured; a metric is tried out by itself.
        writes: What it would write.
        handles: The ids of the handles of all variables that it may change, see `foreign_variables`; None for any.
    """

    rows: int = ROWS
    total: int = ROWS
    is_of_replicas: bool = False
    recording: object | None = None
    capture: Capture | None = None
    captures_readings: bool = True
    writes: list[Write] | None = None
    handles: frozenset[int] | None = None


_OUTSIDE = TrialScope()

TRIAL_SCOPE: contextvars.ContextVar[TrialScope] = contextvars.ContextVar("tfdist_trial_scope", default=_OUTSIDE)


@contextlib.contextmanager
def noting_writes() -> Iterator[list[Write]]:
    """Around code that is tried out; the list is filled with what it writes."""
    writes: list[Write] = []
    with changing(TRIAL_SCOPE, writes=writes):
        yield writes


def note_write(what: str, values: Iterable[Any]) -> None:
    """Notes a write of code that is tried out.

    Args:
        what: By what, as the user calls it.
        values: What is written.
    """
    writes = TRIAL_SCOPE.get().writes
    if writes is not None:
        writes.append(Write(what, [_known(value) for value in values]))


def unshared_write(
    whole: Sequence[Write], parts: Sequence[Sequence[Write]], tolerance: float, split: Split = UNEQUAL
) -> str | None:
    """A write that replicas cannot make that of one; None where there is none.

    They can where all write the same, and where they write a mean over the samples, or a row for each of them.

    Args:
        whole: What was written of the whole batch.
        parts: Of its parts, by one replica each.
        tolerance: Relative to the largest number.
        split: Which rows the parts had.
    """
    if any([write.what for write in part] != [write.what for write in whole] for part in parts):
        return next((write.what for write in (*whole, *(write for part in parts for write in part))), None)
    for write, *of_parts in zip(whole, *parts, strict=True):
        if any(len(part.values) != len(write.values) for part in of_parts):
            return write.what
        for value, *others in zip(write.values, *(part.values for part in of_parts), strict=True):
            if not _is_shared_out(value, others, tolerance, split):
                return write.what
    return None


def _known(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return value
    if isinstance(value, tf.SparseTensor):
        value = tf.sparse.to_dense(value)
    if isinstance(value, tf.Tensor):
        return np.asarray(value) if hasattr(value, "numpy") else None
    return np.asarray(tf.convert_to_tensor(value)) if hasattr(value, "assign") else value


def _is_shared_out(whole: Any, parts: Sequence[Any], tolerance: float, split: Split) -> bool:
    if not isinstance(whole, np.ndarray | tf.RaggedTensor):
        return whole is not None
    if any(type(part) is not type(whole) for part in parts):
        return False
    if isinstance(whole, tf.RaggedTensor) or whole.ndim:
        return is_of_own_rows(whole, parts, tolerance)
    if all(is_same(whole, part, tolerance) for part in parts):
        return True
    if whole.dtype.kind != "f":
        return False
    size = max(float(np.abs(value)) for value in (whole, *parts))
    mean = sum(share * float(part) for share, part in zip(split.shares, parts, strict=True))
    return not np.isfinite(whole) or abs(float(whole) - mean) <= tolerance * size
