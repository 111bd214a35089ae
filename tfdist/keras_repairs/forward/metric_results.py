"""The results of metrics inside of a step: noted, and taken over all replicas where the step computes with them.

A result that a step logs as it is needs no collective in the step: it is read over all replicas when an epoch ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.compile_utils import CompileMetrics

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, global_batch_step, replica_count
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up
from tfdist.keras_repairs.forward.metric_scope import METRIC_SCOPE
from tfdist.runtime.transport import replica_sums

Function = Callable[..., Any]


def updating(update: Function) -> Function:
    """A metric's update, which may read the variables of the metric."""

    @functools.wraps(update)
    def repaired(*args: Any, **kwargs: Any) -> Any:
        with changing(METRIC_SCOPE, is_updated=True):
            return update(*args, **kwargs)

    return repaired


def is_by_metric() -> bool:
    """Returns whether the code that runs in a step is that of a metric, which knows what its variables hold."""
    scope = METRIC_SCOPE.get()
    return scope.gives_result or scope.is_updated


def noted(result: Function) -> Function:
    """A metric's result, of tensors, which the step being traced knows again where it is logged."""

    @functools.wraps(result)
    def repaired(self: Any) -> Any:
        if replica_count() == 1:
            return result(self)
        step = current_step() or global_batch_step()
        # Those of `compile` give the results of their metrics, which note them.
        if step is None or METRIC_SCOPE.get().gives_result or isinstance(self, CompileMetrics):
            return _tensors(result(self))
        with changing(METRIC_SCOPE, gives_result=True):
            given = _tensors(_over_replicas(self) if step.trace.sums_results else result(self))
        _note(step, self, given)
        return given

    return repaired


def _note(step: ReplicaStep, metric: keras.metrics.Metric, given: Any) -> None:
    for place, leaf in enumerate(keras.tree.flatten(given)):
        if isinstance(leaf, tf.Tensor):
            step.noted.results.append((leaf, functools.partial(_read, metric, place)))
            if step.trace.sums_results:
                step.noted.shared.append(leaf)


def _read(metric: keras.metrics.Metric, place: int) -> Any:
    return keras.tree.flatten(metric.result())[place]


def _over_replicas(metric: keras.metrics.Metric) -> Any:
    """The result of a metric from its state over all replicas; all replicas call it together."""
    variables = metric.variables
    summands = {place: tf.convert_to_tensor(v) for place, v in enumerate(variables) if adds_up(v)}
    totals = dict(zip(summands, replica_sums.sum_over_replicas(list(summands.values())), strict=True))
    return metric.stateless_result([totals.get(place, variable) for place, variable in enumerate(variables)])


def _tensors(given: Any) -> Any:
    """A result with tensors in the place of variables, which Keras would put into the logs."""
    return keras.tree.map_structure(_tensor, given)


def _tensor(value: Any) -> Any:
    value = value.value if isinstance(value, keras.Variable) else value
    return tf.convert_to_tensor(value) if isinstance(value, tf.Variable | tf.distribute.DistributedValues) else value
