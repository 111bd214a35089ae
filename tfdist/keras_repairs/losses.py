"""Losses over a global batch: numerators and denominators are summed over the replicas before they are divided.

Keras divides each replica's loss by the replica's own samples (or valid mask entries, or weights) and weights the
replicas equally, which is right only when they have equally many. Here every replica obtains the loss of the global
batch, whatever it divides by; the gradients of all replicas then add up to that loss's gradient.

In a loop that users write by hand with `strategy.run`, a loss is the replica's own summand of that, as TensorFlow's
guides have it: they add up the replicas' losses. Outside of the replicas a loss is that of one device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras import ops
from keras.src.losses import loss as loss_module

from tfdist.keras_repairs.replicas import counted_once, current_step, is_one_of_several, sum_over_replicas
from tfdist.keras_repairs.warn import warn_once

Function = Callable[..., Any]


def reduce_weighted_values(original: Function) -> Function:
    """Repairs `keras.src.losses.loss.reduce_weighted_values`, through which every Keras loss object reduces."""

    def repaired(
        values: Any,
        sample_weight: Any = None,
        mask: Any = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> tf.Tensor:
        if not is_one_of_several():
            return original(values, sample_weight, mask, reduction, dtype)
        values = ops.convert_to_tensor(values, dtype=dtype)
        if current_step() is None and (len(values.shape) == 0 or reduction in (None, "none")):
            return original(values, sample_weight, mask, reduction, dtype)
        if len(values.shape) == 0:
            return mean_over_samples(values, "a loss function that returns a scalar")
        return _reduce(values, sample_weight, mask, loss_module.standardize_reduction(reduction))

    return repaired


def _reduce(values: tf.Tensor, sample_weight: Any, mask: Any, reduction: str | None) -> tf.Tensor:
    """The loss of the global batch from this replica's `values` of shape (samples, ...)."""
    weight = _as(values.dtype, sample_weight)
    valid = _as(values.dtype, mask)
    # With reduction="sum" Keras applies the mask alone, without the factor total / valid.
    weight = loss_module.apply_mask(weight, valid, dtype=values.dtype, reduction="sum")
    if weight is not None:
        values, weight = loss_module.squeeze_or_expand_to_same_rank(values, weight)
        values = values * weight
    numerator = ops.sum(values)
    if reduction == "sum":
        return _sums(numerator)[0]
    if reduction == "mean_with_sample_weight" and weight is not None:
        return _quotient(numerator, ops.sum(weight))
    if valid is None or reduction == "mean_with_sample_weight":
        return _quotient(numerator, _size(values))
    # Keras: sum(values * mask) * (total / valid) / size, with the three counted over the batch.
    numerator, total, count, size = _sums(numerator, _size(valid, values.dtype), ops.sum(valid), _size(values))
    return ops.divide_no_nan(numerator * ops.divide_no_nan(total, count), size)


def mean_over_samples(value: tf.Tensor, what: str) -> tf.Tensor:
    """The mean over the global batch of a scalar that each replica took over its own samples.

    Whether `value` is a mean or a sum cannot be seen from outside; it is taken for a mean, and said once.
    """
    warn_once(
        f"{what} is taken for a mean over the samples of its replica: replicas are weighted by their samples. If it is "
        "anything else (a sum, a maximum), N replicas will not give the numbers of one: return one value a sample "
        "instead, of shape (samples,)."
    )
    samples = tf.cast(current_step().samples, value.dtype)
    # A mean over no sample is NaN; it must reach neither the sum nor, through a product with 0, the gradient.
    share = tf.where(samples > 0, value, tf.zeros_like(value)) * samples
    return _quotient(share, samples)


def additional_loss(loss: Any) -> tf.Tensor:
    """One `add_loss` term over the global batch: a vector over samples is summed as Keras does, a scalar is a mean."""
    value = ops.convert_to_tensor(loss)
    if not value.dtype.is_floating:
        value = ops.cast(value, tf.keras.backend.floatx())
    if len(value.shape) > 0 and value.shape[0] in (None, current_step().static_samples):
        return sum_over_replicas(ops.sum(value))
    return mean_over_samples(ops.sum(value), "a scalar given to add_loss (or an activity regularizer)")


def compute_loss(original: Function) -> Function:
    """Repairs `keras.Model.compute_loss`: tells the terms that depend on the batch from those of the weights."""

    def repaired(
        self: Any, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> tf.Tensor:
        if current_step() is None:
            return original(self, x, y, y_pred, sample_weight, training)
        terms = []
        if self._compile_loss is not None:
            loss = self._compile_loss(y, y_pred, sample_weight)
            if loss is not None:
                terms.append(loss)
        regularizers = self._get_regularization_losses()
        every = self.losses
        terms.extend(additional_loss(loss) for loss in every[: len(every) - len(regularizers)])
        terms.extend(counted_once(ops.sum(loss)) for loss in regularizers)
        if not terms:
            return original(self, x, y, y_pred, sample_weight, training)
        return ops.sum(terms) if len(terms) > 1 else terms[0]

    return repaired


def unless_whole(original: Function) -> Function:
    """Repairs `(un)scale_loss_for_distribution`: what is already the loss of the global batch is not divided by R.

    It is so inside a repaired step, and outside of the replicas, where a script evaluates a loss as on one device.
    """

    def repaired(value: Any) -> Any:
        return original(value) if is_one_of_several() and current_step() is None else value

    return repaired


def _as(dtype: Any, tensor: Any) -> Any:
    return None if tensor is None else ops.convert_to_tensor(tensor, dtype=dtype)


def _size(tensor: tf.Tensor, dtype: Any = None) -> tf.Tensor:
    return ops.cast(tf.size(tensor), dtype or tensor.dtype)


def _sums(numerator: tf.Tensor, *denominators: tf.Tensor) -> list[tf.Tensor]:
    """Sums scalars over the replicas in one collective, but not the numerator in a hand-written loop."""
    if current_step() is not None:
        return tf.unstack(sum_over_replicas(tf.stack([numerator, *denominators])))
    return [numerator, *(tf.unstack(sum_over_replicas(tf.stack(denominators))) if denominators else ())]


def _quotient(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    numerator, denominator = _sums(numerator, denominator)
    return ops.divide_no_nan(numerator, denominator)
