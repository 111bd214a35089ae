"""Repair of gradient accumulation: between two updates every replica adds up its own gradients, and nothing is sent.

Only at an update are the sums of all replicas summed, and then clipped. Until then Keras's accumulators hold each
replica's part. Whether an update is due is the same on all replicas, so
it is decided once, outside of them: all must take a branch in which replicas meet together.

Between two updates each replica holds the sum of its own gradients, and a saved optimizer has the values of the first
replica. At the end of an epoch, and before a callback saves inside of one, the first replica takes over what all hold
and the others continue from zero: the sum over the replicas, which an update takes, stays the same. What is loaded is
such a sum too, and belongs to the first replica alone.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base import replica_copies
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.optimizer.apply_scope import APPLY_SCOPE
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded, would_be_sharded
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.compiled_sums import CompiledSums
from tfdist.runtime.transport.replica_sums import sum_over_replicas
from tfdist.runtime.transport.shard_collectives import sum_over_workers
from tfdist.runtime.workers import local_replicas

Function = Callable[..., Any]
Gradients = Sequence[Any]


def by_one_replica() -> contextlib.AbstractContextManager[None]:
    """Inside, a replica that runs a whole step alone accumulates as Keras does; its accumulators hold full sums."""
    return changing(APPLY_SCOPE, is_by_one=True)


def steps_of(optimizer: Any) -> int | None:
    """Batches from one update of `optimizer` to the next, or None when every batch is one."""
    return inner_of(optimizer).gradient_accumulation_steps


def apply(
    optimizer: Any,
    grads: Gradients,
    variables: Sequence[Any] | None,
    reduce: Callable[[Gradients], Gradients],
    update: Callable[[Gradients], None],
) -> None:
    """Adds up or updates, in the context of a replica.

    Args:
        optimizer: Built; maybe a LossScaleOptimizer around the one that accumulates.
        grads: This replica's gradients, one a variable, or None.
        variables: Their variables; None for those that the optimizer was built with.
        reduce: Sums gradients over the replicas.
        update: Gives gradients to Keras, whose optimizer adds them to the accumulators or, when it is due, updates.
    """
    inner = inner_of(optimizer)
    finite = _finite_everywhere(optimizer, grads)
    due = tf.equal((tf.cast(replica_copies.own_copy(inner._iterations), tf.int64) + 1) % steps_of(optimizer), 0)
    if finite is not None:
        due = tf.logical_and(due, finite)
    context = tf.distribute.get_replica_context()
    absent = [gradient is None for gradient in grads]
    present = [gradient for gradient in grads if gradient is not None]
    targets = [v for v, gone in zip(variables or optimizer._trainable_variables, absent, strict=True) if not gone]

    def on_replica(is_update: bool, finite: tf.Tensor | None, *present: Any) -> None:
        with changing(APPLY_SCOPE, finite=finite), replica_copies.of_this_replica():
            mine = _taken_out(optimizer, present, targets) if is_update else present
        if is_update:
            mine = reduce(mine)
        rest = iter(mine)
        with changing(APPLY_SCOPE, finite=finite):
            update([None if gone else next(rest) for gone in absent])

    def merged(strategy: tf.distribute.Strategy, due: Any, *args: Any) -> None:
        def on_all(is_update: bool) -> Callable[[], None]:
            return lambda: strategy.extended.call_for_each_replica(on_replica, args=(is_update, *args))

        tf.cond(strategy.experimental_local_results(due)[0], on_all(True), on_all(False))

    if isinstance(settings_of(context.strategy).sums, CompiledSums):
        # Its sums need no leaving of the replica, and every worker has one.
        tf.cond(due, lambda: on_replica(True, finite, *present), lambda: on_replica(False, finite, *present))
    else:
        context.merge_call(merged, args=(due, finite, *present))


def check_finite(original: Function) -> Function:
    """Repairs `LossScaleOptimizer.check_finite`: all replicas count where each has gradients, or shards, of its own."""

    def repaired(self: Any, grads: Gradients) -> tf.Tensor:
        finite = APPLY_SCOPE.get().finite
        if finite is not None:
            return finite
        own = original(self, grads)
        if replica_copies.is_of_this_replica() and is_sharded(self):
            # Not over a group alone: weights may be cut over several, each in its own way.
            return tf.equal(sum_over_workers(tf.cast(tf.logical_not(own), tf.int32)), 0)
        return own

    return repaired


def inner_of(optimizer: Any) -> Any:
    """The optimizer that updates variables: of a LossScaleOptimizer the one inside."""
    return optimizer.inner_optimizer if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else optimizer


def _finite_everywhere(optimizer: Any, grads: Gradients) -> tf.Tensor | None:
    if optimizer is inner_of(optimizer):
        return None
    unfit = tf.cast(tf.logical_not(optimizer.check_finite(grads)), tf.int32)
    return tf.equal(sum_over_replicas([unfit])[0], 0)


def _taken_out(optimizer: Any, grads: Gradients, variables: Sequence[Any]) -> Gradients:
    """The accumulated gradients and `grads`, scaled as `grads` are; the accumulators are zero afterwards."""
    inner = inner_of(optimizer)
    is_inner = optimizer is inner
    scale = (inner.loss_scale_factor or 1.0) if is_inner else replica_copies.own_copy(optimizer.dynamic_scale)
    total = []
    for gradient, variable in zip(grads, variables, strict=True):
        accumulator = replica_copies.own_copy(inner._accumulated_gradients[inner._get_variable_index(variable)])
        gradient = tf.convert_to_tensor(gradient)
        total.append(gradient + tf.cast(accumulator * tf.cast(scale, accumulator.dtype), gradient.dtype))
    with tf.control_dependencies(total):
        for variable in variables:
            accumulator = replica_copies.own_copy(inner._accumulated_gradients[inner._get_variable_index(variable)])
            accumulator.assign(tf.zeros_like(accumulator))
    return total


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
            _clear_other_replicas(inner_of(self))

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
