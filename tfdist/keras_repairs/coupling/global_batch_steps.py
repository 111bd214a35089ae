"""Runs a step on the global batch on every replica, as one device would: on the rows of all replicas, and counted once.

It is exact whatever the step does, and no faster than one device. Each replica computes the same and updates its own
copies of variables, by the gradients of the first one; the state of metrics is the first replica's, and what all
replicas log is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import on_global_batch
from tfdist.keras_repairs.base.replica_step import on_global_batch_step, this_step
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.coupling.gathered_batch import which_gathered
from tfdist.keras_repairs.coupling.global_batch_layers import call_with_all_rows
from tfdist.keras_repairs.gradients.alike_gradients import of_first_replica

Step = Callable[[Any], Any]


def on_global_batch_where(step_function: Step, asked: Callable[[], bool]) -> Step:
    """`step_function`, called with the rows of all replicas in steps that are to run whole.

    Args:
        step_function: A step of a model.
        asked: Whether all of its steps are to, beside those of which a `ReplicaStep` says so.
    """

    def step(data: Any) -> Any:
        return _on_all_rows(step_function, data) if this_step().mode.on_global_batch or asked() else step_function(data)

    return step


def rows_of_global_batch_where(asked: Callable[[], bool], predict_step: Step, step: Step) -> Step:
    """A step that predicts each replica's own rows: those of `predict_step` with the rows of all replicas, where asked.

    Args:
        asked: Whether it is asked for.
        predict_step: The model's.
        step: What predicts them otherwise.
    """

    def chosen(data: Any) -> Any:
        return call_with_all_rows(predict_step, (data,), {}) if asked() else step(data)

    return chosen


def _on_all_rows(step_function: Step, data: Any) -> Any:
    replica = this_step()
    whole = data if replica.share.has_all_rows else rows_of_all_replicas(data)
    with on_global_batch_step(), on_global_batch(), of_first_replica():
        outputs = step_function(whole)
    results = {id(result) for result, _ in replica.noted.results}
    replica.noted.shared.extend(leaf for leaf in tf.nest.flatten(outputs) if id(leaf) not in results)
    return outputs


def rows_of_all_replicas(data: Any) -> Any:
    """The data with the samples of all replicas; a table beside them is the same on every replica."""
    leaves = tf.nest.flatten(data)
    parts = zip(leaves, which_gathered(leaves, this_step()), strict=True)
    return tf.nest.pack_sequence_as(data, [all_rows(leaf) if has_samples else leaf for leaf, has_samples in parts])
