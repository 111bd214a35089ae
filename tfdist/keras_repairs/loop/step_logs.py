"""The logs of steps of the user's own: results of metrics, and values besides them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.replica_step import ReplicaStep, TraceAgain, replica_step, this_step
from tfdist.keras_repairs.loop.log_values import part_of_metric, value_of_global_batch
from tfdist.keras_repairs.loop.metric_reads import metric_read_by
from tfdist.runtime.workers import local_replicas

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
            flat = _flat(logs)
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
        fit_state(model).logged_results = None if logs is None else logs.results
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
            return original(self, dict(fit_state(self).take_logs_before()))
        result = original(self, logs)
        results = fit_state(self).logged_results
        if result is logs and results and isinstance(logs, dict):
            result = _read(results, logs)
        elif not DIFFERENCES.logs_lie_flat and _is_nested(result):
            result = _flat(result)
        return keras.tree.map_structure(_value_of, result)

    return repaired


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
