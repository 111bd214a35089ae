"""Notes what code writes that is tried out, instead of writing it, and compares it between one replica and two."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.coupling.trials.split_comparison import UNEQUAL, Split, is_of_own_rows, is_same
from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE, Write


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
