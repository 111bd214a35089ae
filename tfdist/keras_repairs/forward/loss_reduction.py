"""Repairs of losses: what a loss of a global batch is divided by is counted over all replicas.

Keras divides each replica's loss by the replica's own samples (or valid mask entries, or weights) and weights the
replicas equally, which is right only when they have equally many. Here every replica obtains its summand of the loss of
the global batch, whatever that divides by (see `ReplicaStep`); the gradients of all replicas then add up to that loss's
gradient.

In a loop that users write by hand with `strategy.run`, a loss is the replica's own summand of that, as TensorFlow's
guides have it: they add up the replicas' losses. Outside of the replicas a loss is that of one device.

What `tf.nn.compute_average_loss` and `tf.nn.scale_regularization_loss` return is a replica's summand: the replicas'
losses, and their gradients, are added up. In a `train_step` of a model, where scalars are taken for means over the
samples, they are those of one device; and so is the number of replicas, which is 1 there.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops
from keras.src.losses import loss as loss_module

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.keras_differences import DIFFERENCES
from tfdist.keras_repairs.base.loss_scope import LOSS_SCOPE, Kind, Treatment
from tfdist.keras_repairs.base.replica_step import (
    alone,
    current_step,
    global_batch_step,
    is_alone,
    is_of_own_loop,
    is_one_of_several,
    replica_count,
    sum_over_replicas,
    this_step,
)
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.coupling.batch_branches import looked_at_apart, without_branches
from tfdist.keras_repairs.coupling.call_scope import is_mean
from tfdist.keras_repairs.coupling.declarations import DeclaredLoss, declared_of, summed
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_rows, gathered_for_scalar
from tfdist.keras_repairs.coupling.loss_treatment import is_of_keras, note_branch, treatment_of
from tfdist.keras_repairs.coupling.trials.trial_scope import share_on_trial
from tfdist.keras_repairs.forward import added_losses
from tfdist.keras_repairs.forward.metric_scope import METRIC_SCOPE
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.transport.emulated_replicas import emulated_replica

Function = Callable[..., Any]


def is_within_loss() -> bool:
    """Returns whether a Keras loss object is being called, which counts what is computed in it."""
    return LOSS_SCOPE.get().treatment is not None


def call(original: Function) -> Function:
    """Repairs `keras.losses.Loss.__call__`: finds out how replicas can share the loss out, or else gathers."""

    def repaired(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if _is_of_own_rows():
            with contextlib.nullcontext() if is_of_keras(self) else looked_at_apart():
                return original(self, y_true, y_pred, sample_weight)
        # A loss of one's own may be called with a number: whether the samples are real ones, say.
        y_true, y_pred = keras.tree.map_structure(
            lambda leaf: leaf if hasattr(leaf, "shape") else ops.convert_to_tensor(leaf, dtype=self.dtype),
            (y_true, y_pred),
        )
        step, scope, treatment = current_step(), LOSS_SCOPE.get(), treatment_of(self, y_true, y_pred)
        counts = step is not None and not step.users and is_of_keras(self)
        depth = None if scope.depth is None else scope.depth + 1
        # Both have been tried out: with a sum over some samples as it is.
        sums_own = scope.treatment is not None or METRIC_SCOPE.get().is_known
        with changing(LOSS_SCOPE, depth=depth, treatment=treatment, per_sample=counts, sums_own=sums_own):
            if not treatment.gathers:
                run = functools.partial(original, self, y_true, y_pred, sample_weight)
                if declared_of(self) is not None:
                    with looked_at_apart():
                        return run()
                may_branch = step is not None and treatment.is_known and not is_of_keras(self)
                return without_branches(run, lambda: note_branch(self, y_true, y_pred)) if may_branch else run()
            compute = self.loss if isinstance(self, DeclaredLoss) else functools.partial(original, self)
            return _of_global_batch(compute, self, y_true, y_pred, sample_weight)

    return repaired


def _is_of_own_rows() -> bool:
    """Returns whether a loss is that of the rows it is given: of one device, of weights, or in a metric that a loop of
    one's own updates, of which a trial has shown that it adds up what each replica makes of its rows."""
    if not is_one_of_several() or LOSS_SCOPE.get().of_weights:
        return True
    return current_step() is None and METRIC_SCOPE.get().is_known


def _of_global_batch(compute: Function, loss: Any, y_true: Any, y_pred: Any, sample_weight: Any) -> tf.Tensor:
    """The loss that `compute` takes of the rows of all replicas, as on one device."""
    if loss.reduction in (None, "none"):
        batch = gathered_for_rows((y_true, y_pred, sample_weight))
        with alone():
            return batch.own_rows(lambda whole: compute(*whole))
    rows = gathered_for_scalar((y_true, y_pred, sample_weight), dtype=loss.dtype)
    with alone():
        value = compute(*rows)
    step = current_step()
    if step is None:
        return value / tf.cast(replica_count(), value.dtype)
    return step.worth(step.share.summand_of_mean(value), is_term=LOSS_SCOPE.get().depth == 1)


def reduce_weighted_values(original: Function) -> Function:
    """Repairs `keras.src.losses.loss.reduce_weighted_values`, through which every Keras loss object reduces."""

    def repaired(
        values: Any,
        sample_weight: Any = None,
        mask: Any = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> tf.Tensor:
        if _is_of_own_rows():
            value = original(values, sample_weight, mask, reduction, dtype)
            # In a layer that is tried out a sum counts as a mean, as it does below in the step of a replica.
            is_own = reduction != "sum" or LOSS_SCOPE.get().sums_own or LOSS_SCOPE.get().of_weights
            is_own |= share_on_trial() == 1
            return value if is_own else value / tf.cast(share_on_trial(), value.dtype)
        step = current_step()
        # A loss within another is made a scalar of the user's by it, and counted there.
        is_term = LOSS_SCOPE.get().depth == 1
        values = ops.convert_to_tensor(values, dtype=dtype)
        if reduction in (None, "none"):
            # The user's own code reduces the values; in Keras's own steps `refusals` has refused this.
            return original(values, sample_weight, mask, reduction, dtype)
        reduction = loss_module.standardize_reduction(reduction)
        is_scalar = len(values.shape) == 0
        if step is None:
            return (
                original(values, sample_weight, mask, reduction, dtype)
                if is_scalar
                else _summand(values, sample_weight, mask, reduction)
            )
        treatment = LOSS_SCOPE.get().treatment or Treatment()
        is_sum = treatment.kind is Kind.SUM
        if is_scalar:
            summand = _summand_of_scalar(values, sample_weight, mask, reduction)
        elif treatment.kind is Kind.ROWS if treatment.is_known else step.share.may_be_of_samples(values.shape):
            summand, is_sum = _summand(values, sample_weight, mask, reduction), reduction == "sum"
        else:
            # One value a column, say.
            summand = _summand_as(treatment.kind, original(values, sample_weight, mask, reduction, dtype))
        return summand if is_sum and LOSS_SCOPE.get().sums_own else step.worth(summand, is_term=is_term)

    return repaired


def _summand_of_scalar(value: tf.Tensor, sample_weight: Any, mask: Any, reduction: str | None) -> tf.Tensor:
    """Keras multiplies a scalar by each weight, and reduces that: the scalar times what the reduced weights are."""
    summand = _summand_as((LOSS_SCOPE.get().treatment or Treatment()).kind, value)
    if sample_weight is None:
        return summand
    weight = ops.convert_to_tensor(sample_weight, dtype=value.dtype)
    return summand * sum_over_replicas(_summand(ops.ones_like(weight), weight, mask, reduction))


def _summand_as(kind: Kind, value: tf.Tensor) -> tf.Tensor:
    """Returns what a mean or a sum over this replica's samples adds to that over the global batch."""
    step = this_step()
    return step.share.of_samples(value) if kind is Kind.SUM else step.share.summand_of_mean(value)


def _summand(values: tf.Tensor, sample_weight: Any, mask: Any, reduction: str | None) -> tf.Tensor:
    """Returns what this replica's `values` of shape (samples, ...) add to the loss of the global batch."""
    weight = _as(values.dtype, sample_weight)
    valid = _as(values.dtype, mask)
    # With reduction="sum" Keras applies the mask alone, without the factor total / valid.
    weight = loss_module.apply_mask(weight, _as_factors(valid, reduction), dtype=values.dtype, reduction="sum")
    if weight is not None:
        values, weight = loss_module.squeeze_or_expand_to_same_rank(values, weight)
        values = values * weight
    numerator = _of_samples(ops.sum(values))
    if reduction == "sum":
        return numerator
    if reduction == "mean_with_sample_weight" and weight is not None:
        (denominator,) = _counted(ops.sum(weight))
        return ops.divide_no_nan(numerator, denominator)
    if valid is None or reduction == "mean_with_sample_weight":
        return ops.divide_no_nan(numerator, _global_size(values))
    # Keras: sum(values * mask) * (total / valid) / size, with the three counted over the batch.
    total, count, size = _counted(_size(valid, values.dtype), ops.sum(valid), _size(values))
    if not DIFFERENCES.masks_are_counted_exactly:
        count += keras.config.epsilon()
    return ops.divide_no_nan(numerator * ops.divide_no_nan(total, count), size)


def _as_factors(mask: Any, reduction: str | None) -> Any:
    """Returns what values are multiplied by: in a mean over all of them, a mask of other numbers may be that of 0 and
    1."""
    if mask is None or not DIFFERENCES.masks_have_no_weights or reduction in ("sum", "mean_with_sample_weight"):
        return mask
    return ops.cast(ops.cast(mask, "bool"), mask.dtype)


def _global_size(values: tf.Tensor) -> tf.Tensor:
    """Returns how many values the global batch has."""
    step = current_step()
    if step is not None and LOSS_SCOPE.get().per_sample and all(size is not None for size in values.shape[1:]):
        return tf.cast(step.share.total * math.prod(values.shape[1:]), values.dtype)
    return _counted(_size(values))[0]


def additional_loss(loss: Any) -> tf.Tensor:
    """One `add_loss` term over the global batch: a vector over samples is summed as Keras does, a scalar is a mean.

    Raises:
        UnsupportedError: A trial has not shown what a scalar is, nor has the user said it.
    """
    step = this_step()
    value = ops.convert_to_tensor(loss)
    if not value.dtype.is_floating:
        value = ops.cast(value, tf.keras.backend.floatx())
    if len(value.shape) > 0 and value.shape[0] in (None, step.share.static_rows):
        return step.worth(step.share.of_samples(ops.sum(value)), is_term=True)
    # The trial of a step of the user's shows what its terms are. A trace that builds layers tries none of them out.
    if not is_mean(loss) and not step.users and not step.trace.builds:
        _check_added(value)
    return step.worth(step.share.summand_of_mean(ops.sum(value)), is_term=True)


def _check_added(value: tf.Tensor) -> None:
    if settings_of(tf.distribute.get_strategy()).gather:
        raise UnsupportedError(
            f"A tensor of shape {tuple(value.shape)} was given to add_loss from outside of the call of the layer that "
            "it belongs to, and what replicas can share of it is not known. Expected a value that a layer or a model "
            "adds to itself, self.add_loss(value), in its own call, which is tried out; or one that says what it is: "
            "layer.add_loss(tfdist.averaged(value)) where it is a mean over the samples, "
            "layer.add_loss(tfdist.summed(value)) where it is a sum over them, with its factor inside."
        )
    warn_once(
        "gather: off. A scalar given to add_loss is taken for a mean over the samples of its replica: replicas are "
        "weighted by their samples. If it is a sum over samples, say so with tfdist.summed(...); if it is anything "
        "else (a maximum), N replicas will not give the numbers of one."
    )


def compute_loss(original: Function) -> Function:
    """Repairs `keras.Model.compute_loss`: tells the terms that depend on the batch from those of the weights."""

    def repaired(
        self: Any, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> tf.Tensor:
        if current_step() is None:
            return original(self, x, y, y_pred, sample_weight, training)
        terms = []
        if self._compile_loss is not None:
            with changing(LOSS_SCOPE, depth=0):
                loss = self._compile_loss(y, y_pred, sample_weight)
            if loss is not None:
                terms.append(loss)
        regularizers = self._get_regularization_losses()
        every = self.losses
        terms.extend(additional_loss(loss) for loss in every[: len(every) - len(regularizers)])
        terms.extend(this_step().counted_once(ops.sum(loss)) for loss in regularizers)
        if not terms:
            return original(self, x, y, y_pred, sample_weight, training)
        return ops.sum(terms) if len(terms) > 1 else terms[0]

    return repaired


def regularization_losses(original: Function) -> Function:
    """Repairs `Layer._get_regularization_losses`: a loss that a regularizer calls is no mean or sum over samples."""

    def repaired(self: Any) -> list[Any]:
        with changing(LOSS_SCOPE, of_weights=True):
            return original(self)

    return repaired


def undivided_loss(original: Function) -> Function:
    """Repairs `(un)scale_loss_for_distribution`: no loss is divided by R here.

    Inside a repaired step it is already one of the global batch; outside of the replicas, where a script evaluates a
    loss as on one device, there is nothing to divide.
    """

    def repaired(value: Any) -> Any:
        return original(value) if current_step() is None and not _is_of_own_rows() else value

    return repaired


def _as(dtype: Any, tensor: Any) -> Any:
    return None if tensor is None else ops.convert_to_tensor(tensor, dtype=dtype)


def _size(tensor: tf.Tensor, dtype: Any = None) -> tf.Tensor:
    return ops.cast(tf.size(tensor), dtype or tensor.dtype)


def _counted(*denominators: tf.Tensor) -> list[tf.Tensor]:
    """Sums scalars over the replicas in one collective, those of a replica without samples as zeros."""
    return tf.unstack(sum_over_replicas(_of_samples(tf.stack(denominators))))


def _of_samples(value: tf.Tensor) -> tf.Tensor:
    step = current_step()
    return value if step is None else step.share.of_samples(value)


_LIBRARIES = ("tensorflow.", "keras.src.", "tfdist.")
"""Who reads how many replicas there are to compute with all of them."""


def compute_average_loss(original: Function) -> Function:
    """Repairs `tf.nn.compute_average_loss`: the average is taken over the samples that the global batch has.

    TensorFlow multiplies the replica's own samples by the number of replicas, which is the size of the global batch
    only where all replicas have equally many.
    """

    def repaired(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> tf.Tensor:
        if global_batch_step() is not None and global_batch_size is None:
            global_batch_size = tf.shape(per_example_loss, out_type=tf.int64)[0]
        if not is_one_of_several():
            return original(per_example_loss, sample_weight, global_batch_size)
        in_step = current_step() is not None
        if global_batch_size is not None:
            loss = original(per_example_loss, sample_weight, global_batch_size)
            return summed(loss) if in_step and not is_within_loss() else loss
        samples = tf.shape(per_example_loss, out_type=tf.int64)[0]
        if not in_step:
            (samples,) = replica_sums.sum_over_replicas([samples])
        return original(per_example_loss, sample_weight, samples)

    return repaired


def scale_regularization_loss(original: Function) -> Function:
    """Repairs `tf.nn.scale_regularization_loss`: in a step of a model nothing is divided by the replicas.

    In a loop of one's own, what layers add is of a replica's rows: each has the part that it has of the rows of all,
    and not of the replicas. Those parts add up to one for weights, too.
    """

    def repaired(regularization_loss: Any) -> tf.Tensor:
        if global_batch_step() is not None or (is_one_of_several() and current_step() is not None):
            return tf.reduce_sum(regularization_loss)
        value = tf.reduce_sum(regularization_loss)
        share = added_losses.share_of_terms(value.dtype)
        if share is None:
            return original(regularization_loss)
        # A mean over no rows is NaN.
        return tf.where(share > 0, value, tf.zeros_like(value)) * share

    return repaired


def num_replicas_in_sync(original: Function) -> Function:
    """Repairs `tf.distribute.Strategy.num_replicas_in_sync`, and a replica context's: 1 for code of a model's step.

    A step that divides its loss by the number of replicas, as scripts for a MirroredStrategy do, divides by 1 on one
    device. In a loop of one's own, and outside of steps, it is the number that it is; where a loop is tried out, that
    of the replicas in the trial.
    """

    def repaired(self: Any) -> int:
        emulated = emulated_replica()
        if is_of_own_loop():
            return 1 if emulated is None else emulated.count
        if current_step() is not None or is_alone():
            reader = sys._getframe(1).f_globals.get("__name__", "")
            if not reader.startswith(_LIBRARIES):
                return 1
        count: int = original(self)
        return count

    return repaired
