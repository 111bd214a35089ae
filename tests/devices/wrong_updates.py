"""Wrong gradients, batch statistics, random numbers and updates of variables."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from tensorflow.python.distribute import values

from tests.devices.repair_removal import take_out
from tests.devices.wrong_sharings import Function, Patch, is_first, is_last, shared, wrong
from tfdist.keras_repairs import gradient_sums
from tfdist.keras_repairs.base import replica_copies
from tfdist.keras_repairs.base.replica_step import replica_count, replica_id
from tfdist.keras_repairs.forward import batch_moments
from tfdist.keras_repairs.optimizer import gradient_accumulation, gradient_reduction
from tfdist.keras_repairs.random_numbers import draws
from tfdist.keras_repairs.random_numbers.draw_sizes import DrawSlice

# Gradients


def summing(patch: Patch, changed: Function) -> None:
    """Has `changed(once, gradients)` sum gradients."""
    once = gradient_sums.reduce_gradients
    patch.setattr(gradient_reduction, "reduce_gradients", lambda grads: changed(once, grads))


@wrong("rich")
def gradients_not_summed(patch: Patch) -> None:
    summing(patch, lambda once, grads: list(grads))


@wrong("rich")
def gradients_summed_twice(patch: Patch) -> None:
    summing(patch, lambda once, grads: once(once(grads)))


@wrong("rich")
def gradients_averaged(patch: Patch) -> None:
    summing(patch, lambda once, grads: [gradient / replica_count() for gradient in once(grads)])


@wrong("noise")
def gradients_averaged_beside_one_of_rounding_alone(patch: Patch) -> None:
    gradients_averaged(patch)


@wrong("rich")
def gradient_of_a_layer_not_summed(patch: Patch) -> None:
    summing(patch, lambda once, grads: [grads[0], *once(grads)[1:]])


@wrong("rich")
def gradient_of_a_layer_zero(patch: Patch) -> None:
    summing(patch, lambda once, grads: [tf.zeros_like(grads[0]), *once(grads)[1:]])


@wrong("rich")
def gradients_in_another_order(patch: Patch) -> None:
    def changed(once: Function, grads: Any) -> Any:
        first, bias, scale, center, *rest = once(grads)
        return [first, center, scale, bias, *rest]

    summing(patch, changed)


@wrong("rich")
def gradients_of_the_last_replica_left_out(patch: Patch) -> None:
    summing(patch, lambda once, grads: once([tf.zeros_like(g) if is_last() else g for g in grads]))


@wrong("rich")
def gradients_rounded_on_their_way(patch: Patch) -> None:
    summing(patch, lambda once, grads: once([tf.cast(tf.cast(g, tf.bfloat16), g.dtype) for g in grads]))


@wrong("rich")
def gradients_clipped_on_each_replica(patch: Patch) -> None:
    summing(patch, lambda once, grads: once(tf.clip_by_global_norm(grads, 0.3)[0]))


@wrong("tokens")
def sparse_gradient_not_summed(patch: Patch) -> None:
    def changed(once: Function, grads: Any) -> Any:
        pairs = zip(grads, once(grads), strict=True)
        return [own if isinstance(own, tf.IndexedSlices) else total for own, total in pairs]

    summing(patch, changed)


@wrong("own")
def gradients_of_ones_own_step_not_weighted(patch: Patch) -> None:
    shared(patch, gradient_reduction, "weighted", lambda _, grads: list(grads))


@wrong("sharp")
def gradients_of_a_tape_not_summed(patch: Patch) -> None:
    summing(patch, lambda once, grads: list(grads))


@wrong("accumulating")
def gradients_not_summed_once_they_are_accumulated(patch: Patch) -> None:
    summing(patch, lambda once, grads: list(grads))


@wrong("accumulating")
def accumulated_gradients_forgotten(patch: Patch) -> None:
    patch.setattr(gradient_accumulation, "_taken_out", lambda optimizer, grads, variables: list(grads))


@wrong("accumulating")
def accumulators_left_full(patch: Patch) -> None:
    original = gradient_accumulation._taken_out

    def taken(optimizer: Any, grads: Any, variables: Any) -> Any:
        kept = [replica_copies.own_copy(each) for each in optimizer._accumulated_gradients]
        before = [tf.identity(copy) for copy in kept]
        total = original(optimizer, grads, variables)
        for copy, value in zip(kept, before, strict=True):
            copy.assign(value)
        return total

    patch.setattr(gradient_accumulation, "_taken_out", taken)


# Batch statistics


@wrong("rich")
def statistics_of_each_replica(patch: Patch) -> None:
    take_out("BatchNormalization._moments", patch)


@wrong("rich")
def moving_variance_of_each_replica(patch: Patch) -> None:
    original = batch_moments.merged

    def merged(own: Any, sums: Any) -> Any:
        total, mean, _ = original(own, sums)
        return total, mean, own[3] * replica_count()

    patch.setattr(batch_moments, "merged", merged)


@wrong("rich")
def gradient_of_statistics_of_each_replica(patch: Patch) -> None:
    patch.setattr(batch_moments.SumsOverReplicas, "gathered_gradient", lambda self, upstream: upstream)


# Random numbers


@wrong("rich")
def mask_of_dropout_of_the_first_rows(patch: Patch) -> None:
    def changed(original: Function, *args: Any, **kwargs: Any) -> DrawSlice:
        part = original(*args, **kwargs)
        return DrawSlice(part.sizes, part.axis, tf.zeros_like(part.begin), part.total)

    shared(patch, draws, "slice_of_draw", changed)


@wrong("rich")
def mask_of_dropout_of_each_replica(patch: Patch) -> None:
    def changed(original: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
        seed = original(self, *args, **kwargs)
        return seed + ops.cast(replica_id(), seed.dtype)

    shared(patch, keras.random.SeedGenerator, "next", changed)


@wrong("rich")
def seed_not_advanced(patch: Patch) -> None:
    shared(patch, keras.random.SeedGenerator, "next", lambda _, self, *args, **kwargs: self.state.value * 1)


@wrong("rich")
def seed_advanced_twice(patch: Patch) -> None:
    def changed(original: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
        seed = original(self, *args, **kwargs)
        original(self, *args, **kwargs)
        return seed

    shared(patch, keras.random.SeedGenerator, "next", changed)


# Updates


def update_steps(patch: Patch, changed: Function) -> None:
    """Has `changed(original, optimizer, gradients, variables, rate)` update variables."""
    shared(patch, TFOptimizer, "_backend_update_step", changed)


@wrong("rich")
def slots_not_updated(patch: Patch) -> None:
    def changed(original: Function, optimizer: Any, *args: Any) -> None:
        slots = [replica_copies.own_copy(slot) for slot in optimizer.momentums]
        before = [tf.identity(slot) for slot in slots]
        original(optimizer, *args)
        for slot, value in zip(slots, before, strict=True):
            slot.assign(value)

    update_steps(patch, changed)


@wrong("rich")
def iterations_advanced_twice(patch: Patch) -> None:
    def changed(original: Function, optimizer: Any, *args: Any) -> None:
        original(optimizer, *args)
        optimizer.iterations.assign_add(1)

    update_steps(patch, changed)


@wrong("rich")
def rate_halved(patch: Patch) -> None:
    update_steps(patch, lambda original, self, grads, variables, rate: original(self, grads, variables, rate / 2))


@wrong("noise")
def rate_halved_beside_one_of_rounding_alone(patch: Patch) -> None:
    rate_halved(patch)


@wrong("noise")
def correction_of_bias_of_another_step(patch: Patch) -> None:
    def changed(original: Function, optimizer: Any, *args: Any) -> None:
        optimizer.iterations.assign_add(1)
        original(optimizer, *args)
        optimizer.iterations.assign_sub(1)

    update_steps(patch, changed)


@wrong("rich")
def averages_of_weights_left_as_they_are(patch: Patch) -> None:
    shared(patch, TFOptimizer, "_update_model_variables_moving_average", lambda *_: None)


@wrong("rich")
def weights_decayed_twice(patch: Patch) -> None:
    def changed(original: Function, *args: Any) -> None:
        original(*args)
        original(*args)

    shared(patch, TFOptimizer, "_apply_weight_decay", changed)


@wrong("rich")
def weights_updated_on_the_first_replica_alone(patch: Patch) -> None:
    update_steps(patch, lambda original, *args: original(*args) if is_first() else None)


@wrong("rich")
def weights_of_the_last_replica_moved_further(patch: Patch) -> None:
    def changed(original: Function, optimizer: Any, grads: Any, variables: Any, rate: Any) -> None:
        original(optimizer, grads, variables, rate * 1.01 if is_last() else rate)

    update_steps(patch, changed)


@wrong("scaled")
def scale_of_the_loss_left_in_the_gradients(patch: Patch) -> None:
    shared(
        patch,
        keras.optimizers.LossScaleOptimizer,
        "_common_apply",
        lambda original, self, grads, variables: original(self, [gradient * 2.0 for gradient in grads], variables),
    )


@wrong("own")
def variable_left_to_the_first_replica(patch: Patch) -> None:
    def changed(original: Function, variable: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not variable.name.startswith("seen"):
            return original(variable, value, *args, **kwargs)
        copy = replica_copies.own_of(tf.distribute.get_strategy().experimental_local_results(variable))
        return copy.assign_add(value) if is_first() else copy

    shared(patch, values.DistributedVariable, "assign_add", changed)


@wrong("own")
def variable_counted_by_each_replica(patch: Patch) -> None:
    def changed(original: Function, variable: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        factor = replica_count() if variable.name.startswith("seen") else 1
        return original(variable, tf.constant(value * factor), *args, **kwargs)

    shared(patch, values.DistributedVariable, "assign_add", changed)
