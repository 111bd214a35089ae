"""The verdict of a trial of a layer's or model's call: results on a whole batch, compared with those on the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src import backend
from numpy.typing import NDArray

from tfdist.keras_repairs.base.loss_scope import Kind
from tfdist.keras_repairs.coupling.trials.noted_writes import unshared_write
from tfdist.keras_repairs.coupling.trials.split_comparison import comparable, is_of_own_rows, is_same, kinds
from tfdist.keras_repairs.coupling.trials.trial_notes import Write
from tfdist.text import safe_str


@dataclass(frozen=True)
class CallVerdict:
    """The verdict of a trial on a layer or model.

    Attributes:
        reason: Why it has to be called with the rows of all replicas, as half a sentence; empty where it has not.
        losses: What it gives to `add_loss`, one kind a term.
    """

    reason: str = ""
    losses: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class CallResults:
    """The results of a call: what it has done.

    Attributes:
        outputs: Of `output_values`.
        state: What was assigned to variables of Keras, by path.
        losses: What was given to `add_loss`.
        variables: The values of `tf.Variable`s after it, with their names, which need not be unique.
        writes: What it was to write.
    """

    outputs: Sequence[Any]
    state: Mapping[str, NDArray]
    losses: Sequence[NDArray]
    variables: Sequence[tuple[str, NDArray]] = ()
    writes: Sequence[Write] = ()


def output_values(outputs: Any) -> list[Any]:
    """The tensors of what a call returns, and then their Keras masks, as arrays; anything else as it is."""
    leaves = tf.nest.flatten(outputs)
    return [comparable(leaf) for leaf in [*leaves, *(backend.get_keras_mask(leaf) for leaf in leaves)]]


def not_tried(error: Exception) -> CallVerdict:
    """The verdict where the code that is tried out raises `error`, whatever it is."""
    text = f"{type(error).__name__}: {safe_str(error)}".splitlines()[0]
    return CallVerdict(f"it could not be tried out ({text})")


def verdict_of(
    whole: CallResults, parts: Sequence[CallResults], tolerance: float, *, tolerance_of_state: float
) -> CallVerdict:
    """Compares what a call gives for the whole batch with what it gives for its parts.

    Args:
        whole: Of the whole batch.
        parts: Of its parts.
        tolerance: By how much outputs and losses may differ, relative to the largest number.
        tolerance_of_state: Likewise what is assigned.
    """
    if any(len(part.outputs) != len(whole.outputs) or len(part.losses) != len(whole.losses) for part in parts):
        return CallVerdict("it returns or adds other things for a part of a batch than for all of it")
    for value, *of_parts in zip(whole.outputs, *(part.outputs for part in parts), strict=True):
        if not is_of_own_rows(value, of_parts, tolerance):
            return CallVerdict("what it returns for a sample depends on the other samples of its batch")
    assigned = _assigned_by_samples(whole, parts, tolerance_of_state)
    if assigned is not None:
        return CallVerdict(f"it assigns to {assigned} what depends on the samples of the batch")
    written = unshared_write(whole.writes, [part.writes for part in parts], tolerance)
    if written is not None:
        return CallVerdict(f"it writes by {written} what is computed from the batch")
    found = []
    for value, *of_parts in zip(whole.losses, *(part.losses for part in parts), strict=True):
        possible = kinds(value, of_parts, tolerance)
        if not possible:
            return CallVerdict("what it gives to add_loss is neither a mean nor a sum over the samples")
        found.append(next(kind for kind in Kind if kind in possible))
    return CallVerdict(losses=tuple(found))


def _assigned_by_samples(whole: CallResults, parts: Sequence[CallResults], tolerance: float) -> str | None:
    """A variable that has other values after a part of the batch than after all of it, as the text names it."""
    for path, value in whole.state.items():
        if any(path not in part.state or not is_same(value, part.state[path], tolerance) for part in parts):
            return repr(path)
    for (name, value), *others in zip(whole.variables, *(part.variables for part in parts), strict=True):
        if any(not is_same(value, of_part, tolerance) for _, of_part in others):
            return f"{name!r}, a tf.Variable,"
    return None
