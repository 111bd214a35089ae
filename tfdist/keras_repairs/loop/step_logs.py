"""The logs of steps of the user's own: results of metrics, and values besides them.

Each replica has a part of them, for its own samples. In a graph a log shows what it is computed from; here it shows
nothing, so that what is read is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.replica_step import (
    ReplicaStep,
    TraceAgain,
    UnclearSizeError,
    current_step,
    replica_step,
    this_step,
)
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up
from tfdist.keras_repairs.forward.log_origins import is_number_of_samples, origin_of
from tfdist.keras_repairs.forward.metric_results import is_by_metric
from tfdist.keras_repairs.random_numbers.draw_sizes import BatchSize
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.workers import local_replicas

_INSTEAD = (
    "Log tfdist.summed(value) where it is a sum over the samples, such as a count; keras.ops.shape(x)[0] for their "
    "number; keras.ops.cast(value, 'float32') where it is a mean over them; or tfdist.gathered(function)(tensors), "
    "which computes it from the samples of all replicas."
)


def value_of_global_batch(name: str, value: Any, data: Any, model: keras.Model) -> Any:
    """The log for the global batch; all replicas call this together.

    A scalar or an array of a fixed shape is taken for a mean over the samples, a tensor with a row for each sample is
    gathered. What is the same on every replica stays as it is.

    Args:
        name: Of the log.
        value: What the step of this replica logs.
        data: What the step was given.
        model: The model.

    Returns:
        A tensor of the same dtype, or `value` where every replica logs the same.

    Raises:
        UnsupportedError: It cannot be known what the log is for the global batch.
    """
    step = this_step()
    if isinstance(value, keras.Variable):
        own = tf.convert_to_tensor(value)
        return _sum(own) if adds_up(value) else own
    if isinstance(value, tf.Variable | tf.distribute.DistributedValues):
        return tf.convert_to_tensor(value)
    if isinstance(value, bool | int | float | np.generic):
        return _number(name, value, step)
    if not isinstance(value, tf.Tensor | tf.RaggedTensor | tf.SparseTensor):
        return value
    if any(value is tensor for tensor in step.noted.shared):
        return value
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        return all_rows(value)
    if tf.executing_eagerly():
        return _eager(name, value, step)
    return _traced(name, value, data, model)


def part_of_metric(name: str, metric: str) -> UnsupportedError:
    """The error for the log `name`, which a step computes from what a replica has of the metric `metric`."""
    return UnsupportedError(
        f"The log {name!r} of a step of your own is computed from the variables of the metric {metric!r}, which the "
        "step reads, and which each replica has for its own samples. Compute it from the metric's result()."
    )


def _number(name: str, value: Any, step: ReplicaStep) -> Any:
    """A number of Python's: where a step is traced every replica has the same, unless it is a size of the batch."""
    if step.mode.on_global_batch:
        return value
    if isinstance(value, BatchSize) and step.share.static_rows:
        return step.share.total * (int(value) // step.share.static_rows)
    if isinstance(value, float | np.floating):
        # TensorFlow makes it a float32 on one replica, too.
        return tf.cast(_mean(tf.constant(value, tf.float64), step), tf.float32) if tf.executing_eagerly() else value
    if tf.executing_eagerly() or value == step.share.static_rows:
        kind = UnsupportedError if tf.executing_eagerly() else UnclearSizeError
        raise _unknown(name, f"the number {value!r}, which may be that of a replica's own samples", kind)
    return value


def _eager(name: str, value: tf.Tensor, step: ReplicaStep) -> tf.Tensor:
    if value.shape.rank == 0 and value.dtype.is_floating:
        return _mean(value, step)
    # Whether its first dimension is that of the samples cannot be decided by its size: replicas have different numbers
    # of samples, and would decide differently.
    raise _unknown(name, f"{_described(value)}, in a step that runs eagerly")


def _traced(name: str, value: tf.Tensor, data: Any, model: keras.Model) -> tf.Tensor:
    step = this_step()
    origin = origin_of(value, step, model.metrics)
    if origin.metric is not None:
        raise part_of_metric(name, origin.metric)
    if origin.is_shared:
        return value
    if is_number_of_samples(value, data):
        return tf.cast(step.share.total, value.dtype)
    if value.shape.rank and value.shape[0] is None:
        return all_rows(value)
    # What a tensor has of the samples can be seen in a trace for batches of any size.
    kind = UnsupportedError if step.share.static_rows is None else UnclearSizeError
    if value.shape.rank is None or not value.dtype.is_floating:
        raise _unknown(name, _described(value), kind)
    if value.shape.rank > 0 and value.shape[0] == step.share.static_rows:
        raise _unknown(name, f"{_described(value)}, with as many rows as a replica has samples", kind)
    return _mean(value, step)


def _mean(value: tf.Tensor, step: ReplicaStep) -> tf.Tensor:
    # The share of the samples would be too coarse in 16 bits.
    wide = tf.cast(value, tf.float32) if value.dtype.size < 4 else value
    return tf.cast(_sum(step.share.summand_of_mean(wide)), value.dtype)


def _sum(value: tf.Tensor) -> tf.Tensor:
    return replica_sums.sum_over_replicas([value])[0]


def _described(value: tf.Tensor) -> str:
    return f"a tensor of shape {value.shape} and dtype {value.dtype.name}"


def _unknown(name: str, received: str, kind: type[UnsupportedError] = UnsupportedError) -> UnsupportedError:
    return kind(
        f"The log {name!r} of a step of your own is {received}: it cannot be known what it is for the samples of all "
        f"replicas. Expected the result of a metric, a mean over the samples, or a value that is the same on every "
        f"replica. {_INSTEAD}"
    )


def noted(original: Function) -> Function:
    """Repairs the methods of `SyncOnReadVariable` by which it is read."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = current_step()
        if step is not None and tf.executing_eagerly() and not is_by_metric():
            step.noted.read_parts.append(self)
        return original(self, *args, **kwargs)

    return repaired


def metric_read_by(step: ReplicaStep, metrics: Iterable[keras.metrics.Metric]) -> str | None:
    """The name of a metric of which a step has read variables that hold a replica's part; None where it has not."""
    read = {id(variable) for variable in step.noted.read_parts}
    for metric in metrics:
        if any(adds_up(variable) and id(variable._value) in read for variable in metric.variables):
            return str(metric.name)
    return None


Function = Callable[..., Any]


class StepLogs:
    """The logs of one of a model's steps, which become those of the global batch.

    The result of a metric stays the replica's own, which costs no collective; under whatever name it is logged, it is
    read over all replicas when an epoch ends. In a step that computes with such results, as for a score of two of
    them, metrics give their results over all replicas; so they do in steps that run eagerly, where nobody can tell.

    Args:
        model: A compiled model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._sums_results = False
        self.results: dict[str, Callable[[], Any]] = {}
        """Reads the results of metrics that are logged, over all replicas, by name of the log."""
        self.are_nested = False
        """Whether the step returns logs in logs, which lie flat from then on."""

    def of_step(self, step_function: Function) -> Function:
        """The step, with logs that lie flat, as Keras has them in the end, such as the results of `compile`'s metrics.

        Raises:
            UnsupportedError: It cannot be known what a log is for the global batch.
            TraceAgain: The step computes with results of metrics.
        """

        def step(data: Any) -> Any:
            sums_results = self._sums_results or tf.executing_eagerly()
            with replica_step(this_step().traced_with(sums_results=sums_results)):
                return logged(data)

        def logged(data: Any) -> Any:
            replica = this_step()
            logs = step_function(data)
            if not replica.trace.sums_results and _computes_with_results(replica, self._model):
                self._sums_results = True
                raise TraceAgain
            if not isinstance(logs, dict):
                return logs
            flat, self.are_nested = _flat(logs), _is_nested(logs)
            self._check_reads(flat, replica)
            return {name: self._log(name, value, data) for name, value in flat.items()}

        return step

    def _check_reads(self, logs: Mapping[str, Any], step: ReplicaStep) -> None:
        """Raises where a log may be computed from a replica's part of a metric, in a step that runs eagerly."""
        metric = metric_read_by(step, self._model.metrics)
        known = {id(result) for result, _ in step.noted.results} | {id(tensor) for tensor in step.noted.shared}
        by_hand = next((name for name, value in logs.items() if id(value) not in known), None)
        if metric is not None and by_hand is not None:
            raise part_of_metric(by_hand, metric)

    def _log(self, name: str, value: Any, data: Any) -> Any:
        step = this_step()
        read = next((read for result, read in reversed(step.noted.results) if result is value), None)
        if read is None:
            self.results.pop(name, None)
            return value_of_global_batch(name, value, data, self._model)
        self.results[name] = read
        return value


def noting_logs(function: Function, model: keras.Model, logs: StepLogs | None) -> Function:
    """The function that runs steps, after which the model knows what their logs are of; None for Keras's own steps."""

    def execute(iterator: Any) -> Any:
        outputs = function(iterator)
        state = fit_state(model)
        state.logged_results, state.logs_are_nested = (None, False) if logs is None else (logs.results, logs.are_nested)
        return outputs

    return execute


def over_replicas(model: keras.Model, logs: Any) -> Any:
    """The logs that the steps just executed have returned, with the results of metrics over all replicas.

    Args:
        model: The model, whose metrics are as the steps have left them; all workers call this together.
        logs: What its training or test function has returned.
    """
    results = fit_state(model).logged_results
    if results is None or not isinstance(logs, dict):
        return model._get_metrics_result_or_logs(logs)
    return _read(results, logs)


def metrics_result_or_logs(original: Function) -> Function:
    """Repairs `Trainer._get_metrics_result_or_logs`: metrics among the user's logs are read over all replicas.

    Keras takes the logs of the last step as they are, which here are one replica's, unless they name just the metrics.
    Of an epoch whose steps were all done before this process, they are those that its checkpoint has kept. Logs in logs
    are those of their names on one replica, too, where Keras would mix up those of training and validation.
    """

    def repaired(self: Any, logs: Any) -> Any:
        if not logs:
            before = dict(fit_state(self).take_logs_before())
            # Without any batch nothing is built. On one device Keras traces a step all the same, which builds it.
            return original(self, before) if before or _is_built(self) else before
        # Logs in logs have other names than the metrics, by which Keras knows that it may take these in their place.
        result = logs if fit_state(self).logs_are_nested else original(self, logs)
        results = fit_state(self).logged_results
        if result is logs and results and isinstance(logs, dict):
            result = _read(results, logs)
        elif not DIFFERENCES.logs_lie_flat and _is_nested(result):
            result = _flat(result)
        return keras.tree.map_structure(_value_of, result)

    return repaired


def _is_built(model: keras.Model) -> bool:
    """Returns whether the metrics of `compile` have their variables, without which they have no results."""
    return model._compile_metrics is None or model._compile_metrics.built


def _value_of(log: Any) -> Any:
    """A variable's value now: the validation, which comes before the log is read, may set it anew."""
    return tf.identity(log) if isinstance(log, keras.Variable | tf.Variable) else log


def _read(results: Mapping[str, Callable[[], Any]], logs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: results[name]() if name in results else value for name, value in logs.items()}


def _computes_with_results(step: ReplicaStep, model: keras.Model) -> bool:
    """Returns whether a step that was just traced uses results of metrics for anything else than its logs."""
    graph = tf.compat.v1.get_default_graph()
    if any(result.graph is not graph for result, _ in step.noted.results):
        if len(local_replicas(model.distribute_strategy)) > 1:
            raise UnsupportedError(
                "A step of your own reads the result of a metric inside of a tf.function, a tf.cond or a loop, where "
                "the replicas of a worker cannot meet. Read it outside of that."
            )
        return True
    return any(result.consumers() for result, _ in step.noted.results)


def _is_nested(logs: Any) -> bool:
    return isinstance(logs, dict) and any(isinstance(value, dict) for value in logs.values())


def _flat(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what Keras's `pythonify_logs` makes of logs: of two with one name the last in the order of the outer
    names."""
    flat: dict[str, Any] = {}
    for name, value in sorted(logs.items()):
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return flat
