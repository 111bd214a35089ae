"""Wrong losses, metrics and predictions."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tests.devices.repair_removal import take_out
from tests.devices.wrong_sharings import Function, Patch, is_last, shared, wrong
from tfdist.keras_repairs.base.replica_step import ReplicaStep, replica_count
from tfdist.keras_repairs.base.step_records import BatchShare
from tfdist.keras_repairs.forward import added_losses, batch_moments, loss_reduction, metrics
from tfdist.keras_repairs.forward.metric_additivity import Merge, Verdict
from tfdist.keras_repairs.loop import predictions

# Losses


@wrong("rich")
def loss_divided_by_the_replicas(patch: Patch) -> None:
    shared(patch, loss_reduction, "_summand", lambda summand, *args: summand(*args) / replica_count())


@wrong("rich")
def loss_of_own_samples(patch: Patch) -> None:
    shared(patch, loss_reduction, "_global_size", lambda _, x: tf.cast(tf.size(x), x.dtype))


@wrong("rich")
def weights_of_samples_ignored(patch: Patch) -> None:
    shared(patch, loss_reduction, "_summand", lambda summand, values, weight, *rest: summand(values, None, *rest))


@wrong("rich")
def weights_of_other_samples(patch: Patch) -> None:
    shared(patch, loss_reduction, "_summand", lambda summand, x, w, *rest: summand(x, ops.roll(w, 1, 0), *rest))


@wrong("classes")
def weights_of_classes_ignored(patch: Patch) -> None:
    shared(patch, loss_reduction, "_summand", lambda summand, values, weight, *rest: summand(values, None, *rest))


@wrong("tokens")
def mask_ignored(patch: Patch) -> None:
    shared(patch, loss_reduction, "_summand", lambda summand, x, weight, _, how: summand(x, weight, None, how))


@wrong("tokens")
def mask_counted_on_each_replica(patch: Patch) -> None:
    shared(patch, loss_reduction, "sum_over_replicas", lambda _, x: x)


@wrong("rich")
def regularizer_counted_by_each_replica(patch: Patch) -> None:
    patch.setattr(ReplicaStep, "counted_once", lambda self, x: x)


@wrong("rich")
def regularizer_without_gradient(patch: Patch) -> None:
    patch.setattr(ReplicaStep, "counted_once", lambda self, x: tf.stop_gradient(x))


@wrong("rich")
def added_loss_of_each_replica(patch: Patch) -> None:
    shared(patch, loss_reduction, "additional_loss", lambda _, loss: ops.sum(loss))


@wrong("rich")
def added_loss_left_out(patch: Patch) -> None:
    shared(patch, loss_reduction, "additional_loss", lambda original, loss: 0.0 * original(loss))


@wrong("rich")
def activity_counted_by_each_replica(patch: Patch) -> None:
    shared(patch, added_losses, "_mean_of", lambda _, layer, term, output: term * replica_count())


@wrong("rich")
def shares_all_alike(patch: Patch) -> None:
    patch.setattr(BatchShare, "fraction", lambda self, dtype: tf.constant(1 / replica_count(), dtype))


@wrong("rich")
def logged_loss_of_a_summand(patch: Patch) -> None:
    patch.setattr(ReplicaStep, "worth", lambda self, summand, is_term=False: summand)


@wrong("noise")
def rows_that_stand_in_counted(patch: Patch) -> None:
    patch.setattr(batch_moments, "has_samples", lambda x: tf.constant(True))


# Metrics


def updating(patch: Patch, changed: Function) -> None:
    """Has `changed(original, metric, values, weights)` update means."""
    shared(patch, keras.metrics.Mean, "update_state", changed)


@wrong("rich")
def metrics_added_twice(patch: Patch) -> None:
    updating(patch, lambda original, *args, **kwargs: (original(*args, **kwargs), original(*args, **kwargs)))


@wrong("rich")
def metrics_of_all_but_the_last_replica(patch: Patch) -> None:
    updating(patch, lambda original, *args, **kwargs: None if is_last() else original(*args, **kwargs))


@wrong("rich")
def metrics_without_weights(patch: Patch) -> None:
    updating(patch, lambda original, metric, values, sample_weight=None: original(metric, values))


@wrong("rich")
def loss_tracked_by_replicas(patch: Patch) -> None:
    def changed(original: Function, metric: Any, values: Any, sample_weight: Any = None) -> Any:
        return original(metric, values, 1.0 if metric.name == "loss" else sample_weight)

    updating(patch, changed)


@wrong("own")
def metrics_of_scalars_by_replicas(patch: Patch) -> None:
    take_out("Mean.update_state", patch)


@wrong("rich")
def maximum_taken_for_a_sum(patch: Patch) -> None:
    patch.setattr(metrics, "_verdict_of_trial", lambda *args: Verdict(Merge.SUMS))


# Predictions


def joining(patch: Patch, changed: Function) -> None:
    """Joins predictions as `changed` makes them of the right ones."""
    original = predictions.gather
    patch.setattr(predictions, "gather", lambda *args: changed(original(*args)))


@wrong("tested")
def predictions_in_another_order(patch: Patch) -> None:
    joining(patch, lambda rows: rows[::-1])


@wrong("tested")
def predictions_of_the_last_row_lost(patch: Patch) -> None:
    joining(patch, lambda rows: rows[:-1])


@wrong("tested")
def predictions_of_the_first_row_doubled(patch: Patch) -> None:
    joining(patch, lambda rows: tf.concat([rows[:1], rows], 0))


@wrong("tested")
def predictions_of_rows_that_stand_in(patch: Patch) -> None:
    patch.setattr(predictions, "without_stand_in", lambda outputs: outputs)
