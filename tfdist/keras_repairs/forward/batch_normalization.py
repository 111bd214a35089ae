"""Repairs of BatchNormalization: every layer's statistics are those of the global batch, as on one replica.

Without `synchronized=True` Keras takes each replica's own. With it, it makes three collectives of each layer, and none
of a layer with a mask. Layers keep their `synchronized` as the script has set it, and are saved with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import nn

from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.nested_gradients import is_nested, where_shares_are_equal
from tfdist.keras_repairs.base.replica_step import MeetingInXla, current_step, is_alone, is_one_of_several
from tfdist.keras_repairs.coupling.trials.replica_trial import is_in_replica_trial
from tfdist.keras_repairs.forward.batch_moments import has_samples, of_global_batch
from tfdist.keras_repairs.forward.sliced_moments import of_slices, slice_of_features
from tfdist.keras_repairs.model_checks import refusals
from tfdist.keras_repairs.model_checks.model_facts import is_synchronized
from tfdist.text import safe_str

Function = Callable[..., Any]


def moments(original: Function) -> Function:
    """Repairs `BatchNormalization._moments`: mean and variance of a batch that the layer trains on."""

    def repaired(self: Any, inputs: Any, mask: Any) -> tuple[tf.Tensor, tf.Tensor]:
        if is_in_replica_trial():
            return _of_trial(self, inputs)
        if not is_one_of_several():
            return original(self, inputs, mask)
        if not is_synchronized(self):
            return _of_this_replica(original, self, inputs, mask)
        step = current_step()
        if step is not None and step.trace.within_xla:
            raise MeetingInXla
        try:
            if mask is not None:
                return _of_masked(inputs, mask, self._reduction_axes)
            return _of_all(inputs, self._reduction_axes, as_of_constant_mean=not self.synchronized)
        except RuntimeError as error:
            if "merge_call" not in safe_str(error):
                raise
            raise refusals.statistics_in_a_loop(self) from error

    return repaired


def _of_trial(layer: Any, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The statistics that the layer has. A gradient of a gradient is seen as it is through those of a batch."""
    kept = tuple(tf.cast(variable, inputs.dtype) for variable in (layer.moving_mean, layer.moving_variance))
    step = current_step()
    if step is None or not is_one_of_several() or not is_synchronized(layer):
        return kept

    @tf.custom_gradient
    def moments(inputs: tf.Tensor) -> tuple[tuple[tf.Tensor, ...], object]:
        def gradient(*_: tf.Tensor) -> tf.Tensor:
            zeros = tf.zeros_like(inputs)
            return where_shares_are_equal(zeros, step) if is_nested() else zeros

        return kept, gradient

    found: tuple[tf.Tensor, tf.Tensor] = moments(inputs)
    return found


def compute_moments_sync(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.nn._compute_moments_sync`: one collective, without loss of digits."""

    def repaired(x: Any, axes: int | Sequence[int], keepdims: bool) -> tuple[tf.Tensor, tf.Tensor]:
        if is_alone():
            # It has the rows of all replicas, which Keras would have meet for it.
            return nn._compute_moments(x, axes, keepdims)
        if not is_one_of_several():
            return original(x, axes, keepdims)
        return _of_all(x, [axes] if isinstance(axes, int) else axes, keepdims=keepdims)

    return repaired


def _of_all(
    x: tf.Tensor, axes: Sequence[int], *, keepdims: bool = False, as_of_constant_mean: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    part = slice_of_features(x, axes)
    if part is None:
        whole = of_global_batch(x, axes, as_of_constant_mean=as_of_constant_mean)
    else:
        whole = of_slices(part, axes, as_of_constant_mean=as_of_constant_mean)
    mean, variance = whole.mean, tf.math.divide_no_nan(whole.spread, whole.count)
    return (mean, variance) if keepdims else (tf.squeeze(mean, axes), tf.squeeze(variance, axes))


def _of_masked(inputs: tf.Tensor, mask: Any, axes: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    valid = tf.broadcast_to(tf.expand_dims(tf.cast(mask, tf.bool), -1), tf.shape(inputs))
    if not DIFFERENCES.masked_inputs_are_left_out:
        is_nan = ~(valid | tf.math.is_finite(inputs))
        inputs, valid = tf.where(is_nan, tf.constant(float("nan"), inputs.dtype), inputs), valid | is_nan
    whole = of_global_batch(inputs, axes, valid)
    # Keras adds a small number to the count of elements. Its mean is therefore a little nearer to zero than the true
    # one, and its variance is the spread around that mean.
    divisor = whole.count + keras.config.epsilon()
    mean = whole.mean * (whole.count / divisor)
    spread = whole.spread + whole.count * tf.square(whole.mean - mean)
    return tf.squeeze(mean, axes), tf.squeeze(spread / divisor, axes)


def _of_this_replica(original: Function, layer: Any, inputs: tf.Tensor, mask: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """A replica's own statistics; without samples, those that the layer has, so that its averages stay as they are."""
    counts, own = has_samples(inputs), original(layer, inputs, mask)
    kept = (tf.cast(variable, inputs.dtype) for variable in (layer.moving_mean, layer.moving_variance))
    return tuple(tf.where(counts, value, before) for value, before in zip(own, kept, strict=True))
