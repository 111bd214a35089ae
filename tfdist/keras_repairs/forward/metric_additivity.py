"""Additivity of the user's metrics: tried on made-up values, cut in two as replicas would, does the state add up?

A metric may keep values a sample, or a scalar a batch: a sum over the batch, which adds up as it is, or a mean over it,
which counts by the replica's samples. What adds up in neither way cannot be computed by replicas.
"""

from __future__ import annotations

import contextvars
import enum
import logging
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.base.replica_step import alone

_log = logging.getLogger("tfdist")

_share: contextvars.ContextVar[float | None] = contextvars.ContextVar("tfdist_trial_share", default=None)

_SAMPLES = 5
_FIRST = 2
"""Samples of the first part: the parts are unequal, so that their shares are."""

_TOLERANCE = 1e-4


class ScalarKind(enum.Enum):
    """What the scalars are that a metric gives to `Mean` and `Sum` without a weight; it may give none."""

    SUMS = "sums over the samples of the batch"
    MEANS = "means over the samples of the batch"


def share_on_trial() -> float | None:
    """The part of the samples by which a scalar counts in the current trial; None outside of one."""
    return _share.get()


def try_out(metric: keras.metrics.Metric, y_true: tf.Tensor, y_pred: tf.Tensor) -> ScalarKind | None:
    """Tries whether the state after five samples is the sum of the states after two and after three.

    Args:
        metric: A built metric.
        y_true: Labels that it is updated with, of which only shape and dtype count.
        y_pred: Predictions, likewise.

    Returns:
        What its scalars are; None, with a warning, where it could not be tried out.

    Raises:
        UnsupportedError: It is not, so that adding up the replicas' states would give another result.
    """
    # Tried as on one replica, apart from the step that is being traced.
    with tf.init_scope(), alone():
        generator = np.random.default_rng(0)
        true = generator.integers(0, 2, _shape(y_true)).astype(y_true.dtype.as_numpy_dtype)
        pred = generator.uniform(0.05, 0.95, _shape(y_pred)).astype(y_pred.dtype.as_numpy_dtype)
        try:
            for scalars in ScalarKind:
                if _adds_up(metric, true, pred, scalars):
                    return scalars
        except (ValueError, TypeError, tf.errors.OpError) as error:
            _log.warning(
                "The metric %r could not be tried out on made-up values (%s). If it is no sum over samples, its value "
                "on several replicas differs from that of one.",
                metric.name,
                error,
            )
            return None
    raise UnsupportedError(
        f"The metric {metric.name!r} ({type(metric).__qualname__}) is no sum over samples: its state after five "
        "samples is not the sum of its states after the first two and the last three, nor their mean. Keras adds up "
        "the states of the replicas, which would not give the value of one. Put tfdist.gathered(metric) in its place, "
        "which computes it on the predictions of all replicas; or rewrite it with sums (such as a total and a count of "
        "samples, both from zero)."
    )


def _adds_up(metric: keras.metrics.Metric, true: np.ndarray, pred: np.ndarray, scalars: ScalarKind) -> bool:
    def state_after(part: slice) -> list[np.ndarray]:
        share = len(true[part]) / _SAMPLES if scalars is ScalarKind.MEANS else None
        with setting(_share, share):
            return _state_after(metric, true[part], pred[part])

    states = [state_after(part) for part in (slice(None), slice(_FIRST), slice(_FIRST, None))]
    if not any(value.any() for value in states[0]):
        raise ValueError("its state stays zero")
    return all(
        np.allclose(whole, first + second, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
        for whole, first, second in zip(*states, strict=True)
    )


def _shape(tensor: Any) -> list[int]:
    return [_SAMPLES, *(size or 3 for size in tensor.shape[1:])]


def _state_after(metric: keras.metrics.Metric, y_true: np.ndarray, y_pred: np.ndarray) -> list[np.ndarray]:
    zero = [tf.zeros(variable.shape, variable.dtype) for variable in metric.variables]
    state = metric.stateless_update_state(zero, tf.constant(y_true), tf.constant(y_pred))
    return [np.asarray(value, np.float64) for value in state]
