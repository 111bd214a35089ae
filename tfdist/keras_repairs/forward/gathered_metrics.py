"""Metrics that are no sums over samples, such as a maximum: computed on the rows of all replicas, by each of them."""

from __future__ import annotations

from typing import Any

import keras

from tfdist.keras_repairs.base.replica_step import is_one_of_several
from tfdist.keras_repairs.forward.metrics import declare_gathered
from tfdist.keras_repairs.forward.whole_metrics import make_whole, update_whole


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
        make_whole(self.metric)
        update_whole(self.metric, self.metric.update_state, args, kwargs)

    def result(self) -> Any:
        """The metric's result, without a collective: outside of the replicas that of this worker's first one."""
        make_whole(self.metric)
        return self.metric.result()

    def reset_state(self) -> None:
        """Resets every replica's state."""
        make_whole(self.metric)
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metric": keras.saving.serialize_keras_object(self.metric)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GatheredMetric:
        return cls(**{**config, "metric": keras.saving.deserialize_keras_object(config["metric"])})
