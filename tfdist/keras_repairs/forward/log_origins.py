"""Finds the origin of a log of a step of the user's own, as the graph that is being traced tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import ReplicaStep
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up


@dataclass(frozen=True)
class Origin:
    """The origin of a log.

    Attributes:
        is_shared: Whether it surely is the same on every replica: computed from variables and constants alone.
        metric: The name of a metric from whose variables it is computed, which each replica has for its own samples.
    """

    is_shared: bool
    metric: str | None = None


def origin_of(value: tf.Tensor, step: ReplicaStep, metrics: Iterable[keras.metrics.Metric]) -> Origin:
    """Returns where a tensor of the graph being traced comes from.

    Args:
        value: The tensor.
        step: The step that is traced; what is known to be the same on every replica is not looked behind.
        metrics: The metrics that the step may know.
    """
    states = _states_of(metrics)
    seen = {tensor.op for tensor in step.noted.shared if hasattr(tensor, "op")}
    waiting, is_shared = [value.op], True
    while waiting:
        operation = waiting.pop()
        if operation in seen:
            continue
        seen.add(operation)
        if operation.type == "ReadVariableOp":
            metric = states.get(id(_outermost(operation.inputs[0])))
            if metric is not None:
                return Origin(is_shared=False, metric=metric)
        elif operation.type == "Placeholder":
            outer = _outermost(operation.outputs[0])
            # A tensor made outside of all functions; the data of a step come through the functions.
            is_shared &= hasattr(outer, "numpy")
        elif operation.type == "Const":
            is_shared &= step.share.static_rows is None or not _may_be_size(operation, step.share.static_rows)
        else:
            # A random number, a call of Python, an exchange between replicas.
            is_shared &= not operation.op_def.is_stateful
            waiting.extend(tensor.op for tensor in operation.inputs)
    return Origin(is_shared)


def is_number_of_samples(value: tf.Tensor, data: Any) -> bool:
    """Returns whether `value` is the first size of one of the tensors of `data`, which a replica's step was given."""
    operation = value.op
    while operation.type in ("Cast", "Identity"):
        operation = operation.inputs[0].op
    if operation.type != "StridedSlice" or operation.inputs[0].op.type != "Shape":
        return False
    begin = tf.get_static_value(operation.inputs[1])
    whole = operation.inputs[0].op.inputs[0]
    return begin is not None and list(begin) == [0] and any(whole is leaf for leaf in tf.nest.flatten(data))


def _states_of(metrics: Iterable[keras.metrics.Metric]) -> Mapping[int, str]:
    """The ids of the handles of variables that hold a replica's part of a metric, with the metric's name."""
    return {
        id(copy.handle): metric.name
        for metric in metrics
        for variable in metric.variables
        if adds_up(variable)
        for copy in variable._value.values
    }


def _may_be_size(constant: tf.Operation, rows: int) -> bool:
    """Returns whether a constant may be the number of a replica's rows, or the shape of a tensor that has so many."""
    value = tf.get_static_value(constant.outputs[0])
    return value is not None and value.ndim < 2 and value.size > 0 and bool(value.flat[0] == rows)


def _outermost(tensor: Any) -> Any:
    """Returns what a placeholder of a function takes its value from, outside of all functions where that is known."""
    while hasattr(tensor, "op") and tensor.op.type == "Placeholder":
        outer = next((outer for outer, inner in getattr(tensor.graph, "captures", ()) if inner is tensor), None)
        if outer is None:
            return tensor
        tensor = outer
    return tensor
