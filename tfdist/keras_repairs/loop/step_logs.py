"""The logs of steps of the user's own: results of metrics, and scalars besides them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as trainer_module

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.replica_step import this_step
from tfdist.runtime.transport import replica_sums

Function = Callable[..., Any]


class StepLogs:
    """The logs of one of a model's steps.

    A scalar becomes its mean over the samples of the global batch. The result of a metric stays the replica's own,
    which costs no collective; under whatever name it is logged, it is read over all replicas when an epoch ends.

    Args:
        model: A compiled model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._metrics: dict[str, keras.metrics.Metric] = {}
        """The metrics whose results are logged under another name than their own."""

    def of_step(self, step_function: Function) -> Function:
        """The step, with logs that lie flat, as Keras has them in the end, such as the results of `compile`'s metrics.

        Raises:
            UnsupportedError: A log is computed from the result of a metric. Raised while the step is traced.
        """

        def step(data: Any) -> Any:
            logs = step_function(data)
            if not isinstance(logs, dict):
                return logs
            return {name: self._log(name, value) for name, value in _flat(logs).items()}

        return step

    def of_executions(self, function: Function) -> Function:
        """The function that runs steps, after which the model knows what their logs are of."""

        def execute(iterator: Any) -> Any:
            outputs = function(iterator)
            fit_state(self._model).logged_metrics = self._metrics
            return outputs

        return execute

    def _log(self, name: str, value: Any) -> Any:
        results = this_step().results
        metric = next((metric for result, metric in reversed(results) if result is value), None)
        if metric is not None:
            if metric.name != name or name not in self._own_names():
                self._metrics[name] = metric
            return value
        if name in self._own_names():
            return value
        value = tf.convert_to_tensor(value)
        if value.shape.rank != 0 or not value.dtype.is_floating:
            return value
        _check_is_not_computed_from(value, results, name)
        return replica_sums.sum_over_replicas([this_step().summand_of_mean(value)])[0]

    def _own_names(self) -> set[str]:
        names = set(self._model.get_metrics_result())
        if id(self._model._loss_tracker) not in this_step().updated:
            # A loss of the user's under the name of Keras's, which is not in use.
            names.discard("loss")
        return names


def metrics_result_or_logs(original: Function) -> Function:
    """Repairs `Trainer._get_metrics_result_or_logs`: metrics among the user's logs are read over all replicas.

    Keras takes the logs of the last step as they are, which here are one replica's, unless they name just the metrics.
    Of an epoch whose steps were all done before this process, they are those that its checkpoint has kept.
    """

    def repaired(self: Any, logs: Any) -> Any:
        logs = logs or dict(fit_state(self).take_logs_before())
        result = original(self, logs)
        if not isinstance(logs, dict) or getattr(self, "distribute_strategy", None) is None:
            return result
        if self.distribute_strategy.num_replicas_in_sync == 1 or result is not logs:
            return result
        metrics = self.get_metrics_result()
        if "loss" in metrics and not float(self._loss_tracker.count.numpy()):
            del metrics["loss"]
        logged = {name: metric.result() for name, metric in fit_state(self).logged_metrics.items() if name in logs}
        metrics.update(trainer_module.pythonify_logs(logged))
        return {name: metrics.get(name, value) for name, value in logs.items()}

    return repaired


def _flat(logs: Mapping[str, Any]) -> dict[str, Any]:
    """What Keras's `pythonify_logs` makes of logs: of two with one name the last in the order of the outer names."""
    flat: dict[str, Any] = {}
    for name, value in sorted(logs.items()):
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return flat


def _check_is_not_computed_from(value: tf.Tensor, results: list[tuple[tf.Tensor, Any]], name: str) -> None:
    """A result is the replica's own: what is computed from it is neither a mean over samples nor can it be summed."""
    if tf.executing_eagerly() or not results:
        return
    metrics = {id(result.op): metric for result, metric in results if hasattr(result, "op")}
    waiting, seen = [value.op], set()
    while waiting:
        operation = waiting.pop()
        if id(operation) in metrics:
            raise UnsupportedError(
                f"The log {name!r} of a step of your own is computed from the result of the metric "
                f"{metrics[id(operation)].name!r}, which each replica has for its own samples. Expected the result of "
                "a metric as it is, or a mean over the samples of the step. Compute it in the result() of a subclass "
                "of the metric."
            )
        if id(operation) not in seen:
            seen.add(id(operation))
            waiting.extend(tensor.op for tensor in operation.inputs)
