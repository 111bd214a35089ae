"""Captures what a step that is tried out would give to optimizers and to the means and sums of Keras's metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import is_alone
from tfdist.keras_repairs.coupling.trials.trial_notes import TRIAL_SCOPE, Capture, Reading, Update

_LARGE_IN_FLOAT16 = 1e2
"""It ends at 65504."""


@contextlib.contextmanager
def capturing(scale: float, *, terms: float = 1.0) -> Iterator[Capture]:
    """The code inside is tried out: nothing is applied.

    Args:
        scale: By how much gradients are to be larger than they are.
        terms: By how much `scaled_term` makes terms larger.
    """
    capture = Capture(scale, terms)
    with changing(TRIAL_SCOPE, capture=capture):
        yield capture


def without_readings() -> contextlib.AbstractContextManager[None]:
    """The code inside is that of a metric which is tried out by itself, or is traced besides."""
    return changing(TRIAL_SCOPE, captures_readings=False)


def not_capturing() -> contextlib.AbstractContextManager[None]:
    """Around code that is tried out by itself."""
    return changing(TRIAL_SCOPE, capture=None)


def gradient(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `tf.GradientTape.gradient`: where a step is tried out, gradients may be larger than they are.

    There variables that the step has assigned to have another value for Keras than for TensorFlow, which keeps what
    their gradients flow to.
    """

    def repaired(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        capture = TRIAL_SCOPE.get().capture
        if capture is None:
            return original(self, target, sources, *args, **kwargs)
        sources = tf.nest.map_structure(
            lambda source: source._value if isinstance(source, keras.Variable) else source, sources
        )
        gradients = original(self, target, sources, *args, **kwargs)
        if capture.scale == 1:
            return gradients
        return tf.nest.map_structure(lambda one: None if one is None else _scaled(one, capture.scale), gradients)

    return repaired


def scaled_term(term: tf.Tensor) -> tf.Tensor:
    """A term that a layer has added to a loss, as large as the trial of a loop asks for; notes that it is read."""
    capture = TRIAL_SCOPE.get().capture
    if capture is None:
        return term
    capture.reads_terms = True
    return _scaled(term, min(capture.terms, _LARGE_IN_FLOAT16) if term.dtype == tf.float16 else capture.terms)


def _scaled(value: Any, scale: float) -> Any:
    return tf.math.scalar_mul(tf.cast(scale, value.dtype), value)


def captures_update(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any] | None) -> bool:
    """Captures what an optimizer is to apply, which must not be applied then; False outside of trials."""
    capture = TRIAL_SCOPE.get().capture
    if capture is None:
        return False
    variables = optimizer._trainable_variables if variables is None else variables
    paths = [getattr(variable, "path", variable.name) for variable in variables]
    capture.updates.append(Update(optimizer.name, list(gradients), paths))
    return True


def capture_reading(metric: Any, values: Any, weight: Any, counted: tuple[Any, Any]) -> None:
    """Captures what a mean or a sum is updated with, where a step is tried out; see `Reading`."""
    scope = TRIAL_SCOPE.get()
    if scope.capture is not None and scope.captures_readings:
        scope.capture.readings.append(Reading(metric.name, id(metric), values, weight, counted, is_alone()))
