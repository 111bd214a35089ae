"""Metrics over the replicas: Keras adds up their variables, which is right for sums over samples and for nothing else.

Keras's own metrics are such sums. A metric of the user's is tried out once, on made-up values, before it is trusted.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.replicas import alone, current_step
from tfdist.keras_repairs.warn import warn_once

Function = Callable[..., Any]

_log = logging.getLogger("tfdist")

_TRIAL_SAMPLES = 4
_TRIAL_TOLERANCE = 1e-4


def of_scalar(original: Function) -> Function:
    """Repairs `Mean.update_state` and `Sum.update_state`: a scalar without a weight is one a global batch.

    On one replica Keras counts such a number, often the loss of a step, once a batch; here each replica has its own,
    and it counts by the replica's samples.
    """

    def repaired(self: Any, values: Any, sample_weight: Any = None) -> Any:
        step = current_step()
        if step is not None:
            step.updated.add(id(self))
        if step is None or len(getattr(values, "shape", ())) > 0:
            return original(self, values, sample_weight)
        if isinstance(self, keras.metrics.MeanMetricWrapper):
            warn_once(
                f"the metric {self.name!r}, a scalar, is taken for a mean over the samples of its replica. If it is "
                "anything else, N replicas will not give the numbers of one: return one value a sample instead."
            )
        values = tf.cast(values, self.dtype)
        # A mean over no sample is NaN, and NaN times a weight of 0 is, too.
        values = tf.where(step.samples > 0, values, tf.zeros_like(values))
        return original(self, values, step.share(values.dtype) if sample_weight is None else sample_weight)

    return repaired


def update_all(original: Function) -> Function:
    """Repairs `MetricsList.update_state`: tries out the user's metrics when their first step is traced."""
    tried: weakref.WeakSet[Any] = weakref.WeakSet()

    def repaired(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if current_step() is not None:
            for metric in self.metrics:
                is_known = type(metric).__module__.startswith("keras.src.") or getattr(metric, "is_whole", False)
                if metric not in tried and not is_known:
                    check_is_sum(metric, y_true, y_pred)
                    tried.add(metric)
        return original(self, y_true, y_pred, sample_weight)

    return repaired


def warn_of_untried(model: Any) -> None:
    """Warns of the user's metrics that steps or layers update themselves: with what, nobody can try out."""
    for metric in model.metrics:
        if not type(metric).__module__.startswith("keras.src.") and not getattr(metric, "is_whole", False):
            warn_once(
                f"the metric {metric.name!r} ({type(metric).__qualname__}) is updated by a step or a layer of the "
                "model's own. If its state is no sum over samples, its value on several replicas is not that of one: "
                "wrap it in tfdist.gathered(...), or give it to compile(metrics=...), where it is tried out."
            )


def check_is_sum(metric: keras.metrics.Metric, y_true: tf.Tensor, y_pred: tf.Tensor) -> None:
    """Tries whether the state after four samples is the sum of the states after two and two.

    Args:
        metric: A built metric.
        y_true: What it is updated with: only shape and dtype count.
        y_pred: Likewise.

    Raises:
        UnsupportedError: It is not, so that adding up the replicas' states would give another result.
    """
    # Tried as on one replica: of the step that is being traced it knows nothing.
    with tf.init_scope(), alone():
        generator = np.random.default_rng(0)
        true = generator.integers(0, 2, _trial_shape(y_true)).astype(y_true.dtype.as_numpy_dtype)
        pred = generator.uniform(0.05, 0.95, _trial_shape(y_pred)).astype(y_pred.dtype.as_numpy_dtype)
        half = _TRIAL_SAMPLES // 2
        try:
            whole, first, second = (
                _state_after(metric, true[part], pred[part]) for part in (slice(None), slice(half), slice(half, None))
            )
        except (ValueError, TypeError, tf.errors.OpError) as error:
            _log.warning(
                "The metric %r could not be tried out on made-up values (%s). If it is no sum over samples, its value "
                "on several replicas differs from that of one.",
                metric.name,
                error,
            )
            return
    if not all(
        np.allclose(a, b + c, rtol=_TRIAL_TOLERANCE, atol=_TRIAL_TOLERANCE, equal_nan=True)
        for a, b, c in zip(whole, first, second, strict=True)
    ):
        raise UnsupportedError(
            f"The metric {metric.name!r} ({type(metric).__qualname__}) is no sum over samples: its state after four "
            "samples is not the sum of its states after the first and the last two. Keras adds up the states of the "
            "replicas, which would not give the value of one. Put tfdist.gathered(metric) in its place, which computes "
            "it on the predictions of all replicas; or rewrite it with sums (such as a total and a count of samples, "
            "both from zero)."
        )


def _trial_shape(tensor: tf.Tensor) -> list[int]:
    return [_TRIAL_SAMPLES, *(size or 3 for size in tensor.shape[1:])]


def _state_after(metric: keras.metrics.Metric, y_true: np.ndarray, y_pred: np.ndarray) -> list[np.ndarray]:
    zero = [tf.zeros(variable.shape, variable.dtype) for variable in metric.variables]
    state = metric.stateless_update_state(zero, tf.constant(y_true), tf.constant(y_pred))
    return [np.asarray(value, np.float64) for value in state]
