"""Variables of metrics that a step of the user's own reads, where it runs eagerly.

Each replica has a part of them, for its own samples. In a graph a log shows what it is computed from; here it shows
nothing, so that what is read is noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up
from tfdist.keras_repairs.forward.metric_results import is_by_metric

Function = Callable[..., Any]


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
