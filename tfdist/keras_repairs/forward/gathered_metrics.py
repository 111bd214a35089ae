"""Metrics that are no sums over samples, such as a maximum: computed on the rows of all replicas, by each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend

from tfdist.errors import UsageError
from tfdist.keras_repairs.base.replica_step import alone, is_one_of_several
from tfdist.keras_repairs.coupling.gather_rows import all_rows


@keras.saving.register_keras_serializable(package="tfdist")
class GatheredMetric(keras.metrics.Metric):
    """A metric whose state every replica updates with the whole global batch, so that it is that of one replica.

    Args:
        metric: Any metric.
        name: Its name when None.
        dtype: Its dtype when None.
    """

    is_whole = True
    """Its state is the same on every replica, so that nothing must be added up."""

    def __init__(self, metric: keras.metrics.Metric, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or metric.name, dtype=dtype or metric.dtype)
        self.metric = metric
        if hasattr(metric, "_direction"):
            # By this EarlyStopping and its kin know whether more is better.
            self._direction = metric._direction

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Updates the metric with the rows of all replicas; all replicas call it together."""
        if not is_one_of_several():
            self.metric.update_state(*args, **kwargs)
            return
        args, kwargs = all_rows((args, kwargs))
        # On all samples the metric is computed as on one device.
        with alone():
            self.metric.update_state(*args, **kwargs)

    def result(self) -> Any:
        """The metric's result from its state on the first replica of this worker, without a collective."""
        if not self._is_outside():
            return _read(self.metric.result()) if is_one_of_several() else self.metric.result()
        state = [(variable, copies(variable)[0]) for variable in self.metric.variables]
        # Not `stateless_result`: a metric may return its variable itself, which must be read in here.
        with backend.StatelessScope(state_mapping=state):
            return _read(self.metric.result())

    def reset_state(self) -> None:
        """Resets every replica's state. (A value assigned from outside of the replicas would be divided among them.)"""
        if not self._is_outside():
            self.metric.reset_state()
            return
        for variable, value in zip(self.metric.variables, self.metric.stateless_reset_state(), strict=True):
            if value is not variable:
                for copy in copies(variable):
                    copy.assign(value)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metric": keras.saving.serialize_keras_object(self.metric)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatheredMetric:
        return cls(**{**config, "metric": keras.saving.deserialize_keras_object(config["metric"])})

    def _is_outside(self) -> bool:
        """Whether the state lies on several replicas, and the code that runs is none of theirs."""
        return not is_one_of_several() and any(_is_distributed(variable) for variable in self.metric.variables)


def gathered(metric: keras.metrics.Metric | Callable[..., Any]) -> GatheredMetric:
    """Declares that `metric` is no sum over samples: it is computed on predictions gathered from all replicas.

    Exact for any metric, at the price of sending labels and predictions of each batch to every replica. On one replica
    it changes nothing. `compile(metrics=[tfdist.gathered(LargestError())])`.

    Args:
        metric: A Keras metric, or a function `(y_true, y_pred)` of which Keras takes the mean over the batches (or
            over the samples, when it returns one value a sample).

    Returns:
        A Keras metric of the same name.

    Raises:
        UsageError: `metric` is neither.
    """
    if isinstance(metric, keras.metrics.Metric):
        return GatheredMetric(metric)
    if isinstance(metric, type) or not callable(metric):
        raise UsageError(
            "tfdist.gathered(...) takes a keras.metrics.Metric or a function (y_true, y_pred). "
            f"Received: {metric!r}. Give an instance, such as keras.metrics.AUC() for 'auc'."
        )
    return GatheredMetric(keras.metrics.MeanMetricWrapper(metric, name=getattr(metric, "__name__", None)))


def _read(result: Any) -> Any:
    """A metric's result with tensors in the place of variables."""
    return keras.tree.map_structure(
        lambda value: tf.convert_to_tensor(value) if isinstance(value, keras.Variable) else value, result
    )


def _is_distributed(variable: Any) -> bool:
    return isinstance(variable.value, tf.distribute.DistributedValues)


def copies(variable: Any) -> tuple[tf.Variable, ...]:
    """The variables of this worker's replicas behind a Keras variable."""
    value = variable.value
    return value.distribute_strategy.experimental_local_results(value) if _is_distributed(variable) else (value,)
