"""Moves what all replicas have accumulated to the first of them, so that a saved optimizer holds all of it.

Between two updates each replica holds the sum of its own gradients, and a saved optimizer has the values of the first
replica. At the end of an epoch, and before a callback saves inside of one, the first replica takes over what all hold
and the others continue from zero: the sum over the replicas, which an update takes, stays the same. What is loaded is
such a sum too, and belongs to the first replica alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.optimizer import gradient_accumulation
from tfdist.keras_repairs.sharding.optimizer_policy import is_sharded, would_be_sharded
from tfdist.runtime.workers import local_replicas

Function = Callable[..., Any]


class AccumulatorReduction(keras.callbacks.Callback):
    """The first callback of every worker: those that save at the end of an epoch come after it."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        reduce_accumulators(self.model)


def reduce_accumulators(model: Any) -> None:
    """Gives the first replica what all have accumulated for `model`'s optimizers. All workers call this together.

    Without an accumulation under way, which all replicas know of themselves, it costs nothing.
    """
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    for optimizer in optimizers_of(model):
        # Those of which workers have shards accumulate sums over all replicas.
        for accumulator in _accumulators(optimizer) if not is_sharded(optimizer) and _is_under_way(optimizer) else ():
            _sum_into_first(accumulator.value, strategy)


def reduce_before_checkpoint(model: Any) -> None:
    """`reduce_accumulators` inside of an epoch, unless some workers have no such checkpoint and would not take part."""
    if fit_state(model).saves_together:
        reduce_accumulators(model)


def checkpoint_frequency_digest(callbacks: Sequence[Any], *, with_epochs: bool = False) -> int:
    """A number that is the same on two workers whose callbacks write the same checkpoints inside of epochs.

    Args:
        callbacks: Those of one worker.
        with_epochs: Whether also those at the ends of epochs count.
    """
    kinds = keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore
    frequencies = [(type(saver).__name__, saver.save_freq) for saver in callbacks if isinstance(saver, kinds)]
    counted = [entry for entry in frequencies if with_epochs or entry[1] != "epoch"]
    return zlib.crc32(repr(counted).encode()) & 0x7FFFFFFF


def is_needed(model: Any) -> bool:
    """Returns whether several replicas may each hold a part of what an optimizer of `model` has accumulated."""
    if model.distribute_strategy.num_replicas_in_sync == 1:
        return False
    return any(
        optimizer.gradient_accumulation_steps and not would_be_sharded(optimizer) for optimizer in optimizers_of(model)
    )


def load_own_variables(original: Function) -> Function:
    """Repairs `Optimizer.load_own_variables`, of every format but the old one."""

    def repaired(self: Any, store: Any) -> None:
        original(self, store)
        # With another number of variables Keras loads none, and warns.
        if len(store.keys()) == len(self.variables):
            _clear_other_replicas(gradient_accumulation.inner_of(self))

    return repaired


def set_weights(original: Function) -> Function:
    """Repairs `Optimizer.set_weights`, by which the old format is loaded."""

    def repaired(self: Any, weights: Any) -> None:
        original(self, weights)
        _clear_other_replicas(self)

    return repaired


def _is_under_way(optimizer: Any) -> bool:
    steps = optimizer.gradient_accumulation_steps
    return bool(steps) and optimizer.built and int(optimizer._iterations.numpy()) % steps != 0


def _accumulators(optimizer: Any) -> Sequence[Any]:
    return getattr(optimizer, "_accumulated_gradients", ())


def _sum_into_first(value: Any, strategy: tf.distribute.Strategy) -> None:
    """Outside of the replicas: one collective a variable, in full precision even where gradients are compressed."""
    if not isinstance(value, tf.distribute.DistributedValues):
        return
    copies = strategy.experimental_local_results(value)
    first = local_replicas(strategy).start

    def part(context: tf.distribute.ValueContext) -> tf.Tensor:
        return tf.identity(copies[context.replica_id_in_sync_group - first])

    parts = strategy.experimental_distribute_values_from_function(part)
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, parts, axis=None)
    for replica, copy in enumerate(copies, start=first):
        copy.assign(total if replica == 0 else tf.zeros_like(copy))


def _clear_other_replicas(optimizer: Any) -> None:
    if is_sharded(optimizer):
        return
    for accumulator in _accumulators(optimizer):
        value = accumulator.value
        if isinstance(value, tf.distribute.DistributedValues):
            strategy = value.distribute_strategy
            copies = strategy.experimental_local_results(value)
            for replica, copy in enumerate(copies, start=local_replicas(strategy).start):
                if replica > 0:
                    copy.assign(tf.zeros_like(copy))
