"""`tfdist.gathered`: what is computed on the rows of all replicas, by each of them, such as a metric that is no sum."""

from __future__ import annotations

from typing import Any

import keras

from tfdist.keras_repairs.base.replica_step import is_one_of_several
from tfdist.keras_repairs.coupling.declarations import Declared, declared
from tfdist.keras_repairs.coupling.global_batch import GatheredLayer
from tfdist.keras_repairs.forward.global_batch_metrics import keep_full_state, update_on_global_batch
from tfdist.keras_repairs.forward.metrics import declare_gathered


@keras.saving.register_keras_serializable(package="tfdist")
class GatheredMetric(keras.metrics.Metric):
    """A metric whose state every replica updates with the whole global batch, so that it is that of one replica.

    Args:
        metric: Any metric.
        name: Its name when None.
        dtype: Its dtype when None.
    """

    is_gathered = True
    """Its updates are gathered by itself, and not watched."""

    def __init__(self, metric: keras.metrics.Metric, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or metric.name, dtype=dtype or metric.dtype)
        self.metric = metric
        declare_gathered(metric)
        if hasattr(metric, "_direction"):
            # By this EarlyStopping and its kin know whether more is better.
            self._direction = metric._direction

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Updates the metric with the rows of all replicas; all replicas call it together."""
        if not is_one_of_several():
            self.metric.update_state(*args, **kwargs)
            return
        keep_full_state(self.metric)
        update_on_global_batch(self.metric, self.metric.update_state, args, kwargs)

    def result(self) -> Any:
        """The metric's result, without a collective: outside of the replicas that of this worker's first one."""
        keep_full_state(self.metric)
        return self.metric.result()

    def reset_state(self) -> None:
        """Resets every replica's state."""
        keep_full_state(self.metric)
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metric": keras.saving.serialize_keras_object(self.metric)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatheredMetric:
        return cls(**{**config, "metric": keras.saving.deserialize_keras_object(config["metric"])})


def gathered(what: Any) -> Any:
    """Declares that the result for a sample depends on the other samples of its batch, which other replicas hold.

    Every replica then computes it on the rows of all replicas, as one device would, and gradients flow back to the
    replicas that the rows are of. Exact for anything, at the price of sending what it takes to every replica. On one
    replica it changes nothing.

    Args:
        what: A Keras loss or metric, for `compile` or a step of your own; a layer or model, to be put in its place in
            another one; or a function of tensors, which `compile`
            takes for a loss `(y_true, y_pred)` or a metric, and which may be called anywhere in a model or a step:
            `tfdist.gathered(function)(tensors)`. Tensors whose first dimension is the samples are gathered, and each
            replica gets its own rows of outputs that have rows; other outputs are the same on every replica.

    Returns:
        A loss, a metric, a layer or a function of the same name, which is saved and loaded with the model.

    Raises:
        UsageError: `what` is none of these.
    """
    if isinstance(what, keras.metrics.Metric):
        return GatheredMetric(what)
    if isinstance(what, keras.layers.Layer):
        return GatheredLayer(what)
    return declared(what, Declared.GATHERED, "a Keras loss, metric, layer or model, or a function of tensors")
