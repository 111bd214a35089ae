"""Tries out the user's losses: is the value of a batch a mean or a sum over its samples, which replicas can share?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.loss_scope import LOSS_SCOPE, Kind
from tfdist.keras_repairs.coupling.trials import made_up_inputs
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState, value_of
from tfdist.keras_repairs.coupling.trials.split_comparison import (
    PARTS,
    TOLERANCE,
    gradient_is_that_of_parts,
    is_same,
    kinds,
)
from tfdist.keras_repairs.coupling.trials.trial_notes import Write, noting_writes, unshared_write
from tfdist.keras_repairs.coupling.trials.trial_scope import in_trial, on_part
from tfdist.text import safe_str


@dataclass(frozen=True)
class Verdict:
    """The result of a trial.

    Attributes:
        kind: What the values of a loss are; None where they depend on the other samples of the batch, or may do so.
        reason: Why there is no kind, as half a sentence.
    """

    kind: Kind | None
    reason: str = ""


@dataclass(frozen=True)
class _Values:
    value: NDArray
    gradients: list[NDArray]
    state: list[NDArray]
    writes: list[Write]


def try_out(loss: keras.losses.Loss, y_true: Any, y_pred: Any) -> Verdict:
    """Compares values and gradients of a batch of made-up samples with those of its two parts.

    Args:
        loss: A loss object, of which `call` is tried out.
        y_true: Targets that it is called with, of which structure, shapes and dtypes count.
        y_pred: Predictions, likewise.
    """
    return in_trial(lambda: _verdict(loss, y_true, y_pred))


def _verdict(loss: keras.losses.Loss, y_true: Any, y_pred: Any) -> Verdict:
    possible, failure, kept = set(Kind), "", KeptState(loss)
    for draw in range(made_up_inputs.DRAWS):
        try:
            possible &= _kinds(loss, kept, *made_up_inputs.drawn(y_true, y_pred, draw))
        except Exception as error:  # Whatever the user's code raises on values that are not its own.
            failure = f" ({type(error).__name__}: {safe_str(error)})".splitlines()[0]
        if draw < made_up_inputs.IGNORING_DRAWS:
            possible &= _kinds_of_ignored_labels(loss, kept, y_true, y_pred, draw)
        if not possible:
            return Verdict(None, "what it gives for a batch is neither a mean nor a sum of what parts of it give")
    if len(possible) == 1:
        return Verdict(possible.pop())
    return Verdict(None, f"nothing could be learned from trying it out on made-up values{failure}")


def _kinds_of_ignored_labels(
    loss: keras.losses.Loss, kept: KeptState, y_true: Any, y_pred: Any, draw: int
) -> set[Kind]:
    """Returns what values may be where some labels are such as functions leave out, and the loss takes them."""
    possible = set(Kind)
    true, pred = made_up_inputs.drawn(y_true, y_pred, draw)
    for label in made_up_inputs.IGNORED:
        ignoring = made_up_inputs.ignoring(true, label)
        if ignoring is None:
            continue
        try:
            whole = _computed(loss, kept, ignoring, pred, slice(None))
            if all(np.isfinite(part).all() for part in (whole.value, *whole.gradients)):
                possible &= _kinds(loss, kept, ignoring, pred)
        except Exception:  # noqa: S112 - A loss need not take labels that are none.
            continue
    return possible


def _kinds(loss: keras.losses.Loss, kept: KeptState, true: Any, pred: Any) -> set[Kind]:
    whole = _computed(loss, kept, true, pred, slice(None))
    parts = [_computed(loss, kept, true, pred, part) for part in PARTS]
    if not all(_have_same_state(whole, part) for part in parts):
        return set()
    if unshared_write(whole.writes, [part.writes for part in parts], TOLERANCE) is not None:
        return set()
    return {
        kind
        for kind in kinds(whole.value, [part.value for part in parts])
        if all(
            gradient_is_that_of_parts(kind, of_whole, of_parts)
            for of_whole, *of_parts in zip(whole.gradients, *(part.gradients for part in parts), strict=True)
        )
    }


def _have_same_state(one: _Values, other: _Values) -> bool:
    """Returns whether a part of the batch has assigned the same to variables as all of it."""
    if len(one.state) != len(other.state):
        return False
    return all(is_same(a, b, tolerance=0.0) for a, b in zip(one.state, other.state, strict=True))


def _computed(loss: keras.losses.Loss, kept: KeptState, true: Any, pred: Any, rows: slice) -> _Values:
    """The values of a loss and the gradient of their sum by each tensor of the predictions; by those in their place,
    where a loss is called with the predictions first and a number for all of them."""

    def tensor(value: NDArray) -> tf.Tensor:
        return tf.cast(tf.constant(value[rows] if value.ndim else value), loss.dtype)

    y_true, y_pred = (keras.tree.map_structure(tensor, values) for values in (true, pred))
    sources = [each for each in keras.tree.flatten(y_pred) if each.shape.rank] or keras.tree.flatten(y_true)
    with kept.restored(), keras.StatelessScope() as scope, tf.GradientTape() as tape, on_part(rows):
        tape.watch(sources)
        with noting_writes() as writes, changing(LOSS_SCOPE, sums_own=True):
            value = keras.ops.convert_to_tensor(loss.call(y_true, y_pred), dtype=loss.dtype)
        total = tf.reduce_sum(value)
        state = [*map(np.asarray, scope.state_mapping.values()), *map(value_of, kept.variables)]
    gradients = tape.gradient(total, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    arrays = [np.asarray(tf.convert_to_tensor(gradient)) for gradient in gradients]
    return _Values(np.asarray(value), arrays, state, writes)
