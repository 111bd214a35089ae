"""The values that the user's steps leave in variables, but for those of metrics and of random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.coupling.trials.kept_state import KeptState, value_of
from tfdist.keras_repairs.coupling.trials.replica_trial import Assignments
from tfdist.keras_repairs.coupling.trials.split_comparison import is_same
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import Cause, StepVerdict
from tfdist.runtime.workers import local_replicas

_LATE_WEIGHT = 0.5
_LATE_COUNT = 1_000_000


@dataclass(frozen=True)
class Assigned:
    """The value that a step has left in a variable.

    Attributes:
        name: Of the variable.
        value: What it left.
        has_changed: Whether it was something else before.
        hindrance: Why replicas cannot assign it as one does; EXACT where they can.
    """

    name: str
    value: NDArray
    has_changed: bool
    hindrance: Cause


class Before:
    """The variables that a step may assign, as they are before it.

    Args:
        model: Whose step it is.
        kept: What the step can reach.
    """

    def __init__(self, model: keras.Model, kept: KeptState) -> None:
        self.metrics: list[keras.metrics.Metric] = list(_metrics_of(model))
        self._of_metrics = {id(variable) for metric in self.metrics for variable in metric.variables}
        self._replicas_here = len(local_replicas(model.distribute_strategy))
        self._variables = kept.variables
        self._values = [value_of(variable) for variable in kept.variables]
        scalers = [each for each in optimizers_of(model) if isinstance(each, keras.optimizers.LossScaleOptimizer)]
        self._scaling = [scaler for scaler in scalers if scaler.built]
        optimizer = getattr(model, "optimizer", None)
        of_keras = [*model.non_trainable_variables, *(() if optimizer is None else optimizer.variables)]
        self._of_keras = [variable for variable in of_keras if not self._is_left_out(variable)]

    def leave_unscaled(self, scope: Assignments) -> None:
        """Lets scaled losses be what they are: times the scale of a run numbers may overflow 16 bits, of parts first.

        Args:
            scope: What has the values of variables of Keras.
        """
        for optimizer in self._scaling:
            scope.state_mapping[id(optimizer.dynamic_scale)] = tf.constant(1.0)

    def set_late(self, scope: Assignments) -> None:
        """Sets counts, and variables that hold zeros, to what they may be late in the training.

        A weight that is scheduled begins with zero, and would hide what it weighs; so would a count of steps.

        Args:
            scope: What has the values of variables of Keras.
        """
        for variable in self._of_keras:
            late = _late(value_of(variable._value))
            if late is not None:
                scope.state_mapping[id(variable)] = tf.constant(late)
        for variable, value in zip(self._variables, self._values, strict=True):
            late = _late(value)
            if late is not None:
                variable.assign(late)

    def assigned(self, scope: Assignments) -> dict[int, Assigned]:
        """Returns what a step has left in variables, by their ids.

        Args:
            scope: What it has assigned to those of Keras.
        """
        found = {}
        for variable in scope.variables:
            value = scope.assigned(variable)
            if value is not None and not self._is_left_out(variable):
                before = value_of(variable._value)
                found[id(variable)] = self._one(variable.path, variable._value, np.asarray(value), before)
        for variable, before in zip(self._variables, self._values, strict=True):
            found[id(variable)] = self._one(variable.name, variable, value_of(variable), before)
        return found

    def _is_left_out(self, variable: Any) -> bool:
        # Seeds advance alike, and what metrics are updated with is looked at.
        value = variable._value
        of_metric = value is None or value.synchronization == tf.VariableSynchronization.ON_READ
        return of_metric or id(variable) in self._of_metrics or "seed_generator_state" in variable.path

    def _one(self, name: str, variable: Any, after: NDArray, before: NDArray) -> Assigned:
        return Assigned(name, after, not is_same(before, after, tolerance=0.0), self._hindrance(variable))

    def _hindrance(self, variable: Any) -> Cause:
        if not isinstance(variable, tf.distribute.DistributedValues):
            return Cause.SHARED if self._replicas_here > 1 else Cause.EXACT
        return Cause.ADDED_UP if variable.aggregation == tf.VariableAggregation.SUM else Cause.EXACT


def _late(value: NDArray) -> NDArray | None:
    """The value of a variable late in the training, where that is surely another one."""
    if value.dtype.kind == "i" and not value.ndim:
        return np.full_like(value, _LATE_COUNT)
    if np.issubdtype(value.dtype, np.floating) and not np.any(value):
        return np.full_like(value, _LATE_WEIGHT)
    return None


def of_assigned(
    whole: Mapping[int, Assigned], parts: Sequence[Mapping[int, Assigned]], tolerance: float
) -> StepVerdict | None:
    """Returns what is wrong with what a step leaves in variables; None where nothing is.

    Args:
        whole: On one replica, by the variable's id.
        parts: On each of two.
        tolerance: Relative to the largest number.
    """
    for key in {key: None for one in (whole, *parts) for key in one}:
        left = [one.get(key) for one in (whole, *parts)]
        known = [one for one in left if one is not None]
        if not any(one.has_changed for one in known):
            continue
        what = f"what it assigns to {known[0].name!r}"
        if known[0].hindrance is not Cause.EXACT:
            return StepVerdict(known[0].hindrance, what)
        if len(known) < len(left) or any(not is_same(known[0].value, one.value, tolerance) for one in known):
            return StepVerdict(Cause.ASSIGNED, what)
    return None


def _metrics_of(model: keras.Model) -> Iterator[keras.metrics.Metric]:
    yield from model.metrics
    for layer in model._flatten_layers():
        yield from layer._metrics
