"""Runs layers, models and steps on the global batch on every replica, as one device would.

It is exact whatever the step does, and no faster than one device. Each replica computes the same and updates its own
copies of variables, by the gradients of the first one; the state of metrics is the first replica's, and what all
replicas log is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.keras_repairs.base.batch_rows import with_known_rows
from tfdist.keras_repairs.base.replica_copies import on_global_batch
from tfdist.keras_repairs.base.replica_step import (
    alone,
    current_step,
    is_one_of_several,
    on_global_batch_step,
    this_step,
)
from tfdist.keras_repairs.coupling import call_scope
from tfdist.keras_repairs.coupling.call_scope import Losses
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.coupling.gathered_batch import gathered_for_rows, which_gathered
from tfdist.keras_repairs.gradient_sums import of_first_replica

Function = Callable[..., Any]


def call_with_all_rows(call: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what `call` returns for the rows of this replica, called with those of all.

    What it assigns to variables is the same on all replicas. What it adds to the losses is the loss of the global batch
    on every replica, and counts once.

    Args:
        call: A layer, to be called in the context of a replica, on all of them.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    step = current_step()
    calls: list[Losses] = []

    def called(values: Any) -> Any:
        args, kwargs = values
        with alone(), on_global_batch():
            if step is None:
                return call(*args, **kwargs)
            with call_scope.collecting() as losses:
                calls.append(losses)
                return call(*args, **kwargs)

    outputs = gathered_for_rows((args, kwargs)).own_rows(called)
    if step is not None:
        # Of the first call: a further one is a trace, which tells what the outputs are.
        for layer, terms in calls[0].items():
            # As Keras adds them up; a scalar that is the same on every replica is a mean over all samples.
            means = [call_scope.marked_as_mean(ops.sum(term)) for term in terms]
            step.noted.added_losses.setdefault(layer, []).extend(means)
    return outputs


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
    whole = data if replica.share.has_all_rows else _with_static_rows(rows_of_all_replicas(data))
    with on_global_batch_step(), on_global_batch(), of_first_replica():
        outputs = step_function(whole)
    results = {id(result) for result, _ in replica.noted.results}
    replica.noted.shared.extend(leaf for leaf in tf.nest.flatten(outputs) if id(leaf) not in results)
    return outputs


def _with_static_rows(whole: Any) -> Any:
    """The samples of all replicas, with shapes that say how many they are in a trace for batches of one size."""
    total = this_step().share.static_total
    return whole if total is None else with_known_rows(whole, total)


def rows_of_all_replicas(data: Any) -> Any:
    """The data with the samples of all replicas; a table beside them is the same on every replica."""
    leaves = tf.nest.flatten(data)
    parts = zip(leaves, which_gathered(leaves, this_step()), strict=True)
    return tf.nest.pack_sequence_as(data, [all_rows(leaf) if has_samples else leaf for leaf, has_samples in parts])


@keras.saving.register_keras_serializable(package="tfdist")
class GatheredLayer(keras.layers.Wrapper):
    """A layer that every replica calls with the rows of all of them, and of which it takes its own rows.

    Args:
        layer: Any layer or model.
    """

    def __init__(self, layer: keras.layers.Layer, **options: Any) -> None:
        super().__init__(layer, **{"name": layer.name, "dtype": layer.dtype_policy} | options)
        self.supports_masking = True

    def build(self, *shapes: Any, **named: Any) -> None:
        """Leaves it to the layer inside, which is built when it is called."""

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_one_of_several():
            return self.layer(inputs, *args, **kwargs)
        return call_with_all_rows(self.layer, (inputs, *args), kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """The mask of the layer inside, which is that of other layers where it computes none."""
        return self.layer.compute_mask(inputs, previous_mask) if self.layer.supports_masking else None
