"""Repairs of metrics: Keras adds up the replicas' variables, which is right for sums over samples alone.

Keras's own metrics are such sums. The user's metrics are tried out once, see `metric_additivity`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.replica_step import current_step
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.forward.metric_additivity import ScalarKind, share_on_trial, try_out

Function = Callable[..., Any]

_SCALARS: AttachedValue[ScalarKind] = AttachedValue("scalars")
"""What the scalars are that a metric is updated with, where a trial has shown it."""


def of_scalar(original: Function) -> Function:
    """Repairs `Mean.update_state` and `Sum.update_state`: a scalar without a weight is one a global batch.

    On one replica Keras counts such a number, often the loss of a step, once a batch; here each replica has its own,
    and it counts by the replica's samples, unless a trial has shown that it is a sum over them.
    """

    def repaired(self: Any, values: Any, sample_weight: Any = None) -> Any:
        step = current_step()
        if step is not None:
            step.updated.add(id(self))
        is_function = isinstance(self, keras.metrics.MeanMetricWrapper) and _SCALARS.get(self) is None
        shape = getattr(values, "shape", ())
        if len(shape) > 0 and not (is_function and step is not None and not step.may_be_of_samples(shape)):
            return original(self, values, sample_weight)
        if step is None:
            return original(self, values, share_on_trial() if sample_weight is None else sample_weight)
        if is_function:
            warn_once(
                f"the metric {self.name!r}, whose values are not one a sample, is taken for a mean over the samples of "
                "its replica. If it is anything else, N replicas will not give the numbers of one: return one value a "
                "sample instead, or wrap it in tfdist.gathered(...)."
            )
        values = tf.cast(values, self.dtype)
        # A mean over no sample is NaN, and so is NaN times a weight of 0.
        values = tf.where(step.samples > 0, values, tf.zeros_like(values))
        if sample_weight is None and _SCALARS.get(self) is not ScalarKind.SUMS:
            sample_weight = step.share(values.dtype)
        return original(self, values, sample_weight)

    return repaired


def update_all(original: Function) -> Function:
    """Repairs `MetricsList.update_state`: tries out the user's metrics when their first step is traced."""
    tried: weakref.WeakSet[Any] = weakref.WeakSet()

    def repaired(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if current_step() is not None:
            for metric in self.metrics:
                is_known = type(metric).__module__.startswith("keras.src.") or getattr(metric, "is_whole", False)
                if metric not in tried and not is_known:
                    _note(metric, try_out(metric, y_true, y_pred))
                    tried.add(metric)
        return original(self, y_true, y_pred, sample_weight)

    return repaired


def warn_of_untried(model: Any) -> None:
    """Warns of the user's metrics that steps or layers update themselves, which cannot be tried out."""
    for metric in model.metrics:
        if not type(metric).__module__.startswith("keras.src.") and not getattr(metric, "is_whole", False):
            warn_once(
                f"the metric {metric.name!r} ({type(metric).__qualname__}) is updated by a step or a layer of the "
                "model's own. If its state is no sum over samples, its value on several replicas is not that of one: "
                "wrap it in tfdist.gathered(...), or give it to compile(metrics=...), where it is tried out."
            )


def _note(metric: keras.metrics.Metric, scalars: ScalarKind | None) -> None:
    """Attaches to a metric, and to those that it is made of, what the scalars are that it updates them with."""
    for part in [metric, *metric._metrics]:
        _SCALARS.set(part, scalars)
        if part is not metric:
            _note(part, scalars)
