"""What a step that is tried out would give to optimizers and to the means and sums of Keras's metrics."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.base.replica_step import is_alone


@dataclass(frozen=True)
class Update:
    """What an optimizer would have applied.

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
    """What a mean or a sum was updated with.

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
    """What was captured so far, in its order.

    Attributes:
        scale: By how much gradients are larger than they are, so that code which clips them does.
        updates: What optimizers get.
        readings: What means and sums of metrics get.
    """

    scale: float
    updates: list[Update] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)


_capture: contextvars.ContextVar[Capture | None] = contextvars.ContextVar("tfdist_step_capture", default=None)
_takes_readings: contextvars.ContextVar[bool] = contextvars.ContextVar("tfdist_captures_readings", default=True)


@contextlib.contextmanager
def capturing(scale: float) -> Iterator[Capture]:
    """The code inside is tried out: nothing is applied.

    Args:
        scale: By how much gradients are to be larger than they are.
    """
    capture = Capture(scale)
    with setting(_capture, capture):
        yield capture


def without_readings() -> contextlib.AbstractContextManager[None]:
    """The code inside is that of a metric which is tried out by itself."""
    return setting(_takes_readings, False)


def not_capturing() -> contextlib.AbstractContextManager[None]:
    """Around code that is tried out by itself."""
    return setting(_capture, None)


def gradient(original: Callable[..., Any]) -> Callable[..., Any]:
    """Repairs `tf.GradientTape.gradient`: where a step is tried out, gradients may be larger than they are.

    There variables that the step has assigned to have another value for Keras than for TensorFlow, which keeps what
    their gradients flow to.
    """

    def repaired(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        capture = _capture.get()
        if capture is None:
            return original(self, target, sources, *args, **kwargs)
        sources = tf.nest.map_structure(
            lambda source: source._value if isinstance(source, keras.Variable) else source, sources
        )
        gradients = original(self, target, sources, *args, **kwargs)
        if capture.scale == 1:
            return gradients
        return tf.nest.map_structure(
            lambda one: None if one is None else tf.math.scalar_mul(tf.cast(capture.scale, one.dtype), one), gradients
        )

    return repaired


def captures_update(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any] | None) -> bool:
    """Captures what an optimizer is to apply, which must not be applied then; False outside of trials."""
    capture = _capture.get()
    if capture is None:
        return False
    variables = optimizer._trainable_variables if variables is None else variables
    paths = [getattr(variable, "path", variable.name) for variable in variables]
    capture.updates.append(Update(optimizer.name, list(gradients), paths))
    return True


def capture_reading(metric: Any, values: Any, weight: Any, counted: tuple[Any, Any]) -> None:
    """Captures what a mean or a sum is updated with, where a step is tried out; see `Reading`."""
    capture = _capture.get()
    if capture is not None and _takes_readings.get():
        capture.readings.append(Reading(metric.name, id(metric), values, weight, counted, is_alone()))
