"""Reduces gradients, here alone: they are summed over the replicas before anything else is done to them.

Keras clips, checks and accumulates each replica's own gradient and reduces last; a norm is not a sum, so what it then
clips is wrong. Here the optimizer receives the global batch's gradient, and proceeds as on one replica.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras.src import backend

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.base.replica_step import is_one_of_several
from tfdist.keras_repairs.coupling.trials.steps.step_capture import captures_update
from tfdist.keras_repairs.optimizer import gradient_accumulation, variable_updates
from tfdist.keras_repairs.optimizer.gradient_sums import reduce_gradients, weighted
from tfdist.keras_repairs.sharded_optimizer import sharded_update
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import is_cut
from tfdist.keras_repairs.sharded_parameters.cut_variable import is_cut_variable
from tfdist.keras_repairs.sharded_parameters.summed_gradients import checked_sum, is_whole, keep_whole
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.transport.compiled_sums import CompiledSums, NotBuiltYet

Function = Callable[..., Any]
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None
Observer = Callable[[Sequence[Gradient]], None]

_applying: contextvars.ContextVar[bool] = contextvars.ContextVar("tfdist_applying_gradients", default=False)


def apply(original: Function, observer: Observer | None = None) -> Function:
    """Repairs `Optimizer.apply` and `LossScaleOptimizer.apply`: reduces first, then clips, checks, decays and updates.

    Args:
        original: The method.
        observer: Called, while a step is traced, with the gradients of the global batch as the optimizer gets them.
    """

    def repaired(self: Any, grads: Sequence[Gradient], trainable_variables: Any = None) -> None:
        if captures_update(self, grads, trainable_variables):
            return
        if _applying.get():
            # The optimizer inside of another one.
            sharded_update.apply_to_parts(original, self, grads, trainable_variables)
            return
        if tf.distribute.in_cross_replica_context():
            # A script that applies what it has reduced itself.
            if sharded_update.would_be_cut(self):
                sharded_update.refuse_outside(self)
            original(self, grads, trainable_variables)
            return
        with setting(_applying, True):
            if not is_one_of_several() and settings_of(self._distribution_strategy).offload is not None:
                _build(self, None if trainable_variables is None else list(trainable_variables))
                _apply_cut(original, self, grads, trainable_variables, observer, list)
            elif is_one_of_several():
                _apply(original, self, grads, trainable_variables, observer)
            else:
                if observer is not None:
                    observer(grads)
                original(self, grads, trainable_variables)

    return repaired


def _apply(
    original: Function, optimizer: Any, grads: Sequence[Gradient], variables: Any, observer: Observer | None
) -> None:
    variables = None if variables is None else list(variables)
    _build(optimizer, variables)
    _check_overwritten(variables or optimizer._trainable_variables)
    grads = _weighted(optimizer, grads, variables)
    if is_cut(optimizer):
        _apply_cut(original, optimizer, grads, variables, observer, reduce_gradients)
        return

    def reduce(grads: Sequence[Gradient]) -> list[Gradient]:
        reduced = reduce_gradients(grads)
        if observer is not None:
            observer(reduced)
        return reduced

    def update(reduced: Sequence[Gradient]) -> None:
        # Accumulation calls this in threads of TensorFlow's, which do not have the context.
        with setting(_applying, True), variable_updates.of_this_replica():
            original(optimizer, reduced, variables)

    if gradient_accumulation.steps_of(optimizer):
        _check_compression(optimizer)
        gradient_accumulation.apply(optimizer, grads, variables, reduce, update)
    else:
        update(reduce(grads))


def _weighted(optimizer: Any, grads: Sequence[Gradient], variables: Sequence[Any] | None) -> list[Gradient]:
    """The gradients, weighted by samples; those of variables that are cut are summed already, and checked."""
    chosen = optimizer._trainable_variables if variables is None else variables
    is_sum = [is_cut_variable(variable) and not is_whole(g) for g, variable in zip(grads, chosen, strict=True)]
    rest = iter(weighted([g for g, summed in zip(grads, is_sum, strict=True) if not summed]))

    def of(gradient: Gradient, variable: Any, summed: bool) -> Gradient:
        if summed:
            return checked_sum(gradient, variable)
        found = next(rest)
        return keep_whole(found) if is_whole(gradient) else found

    return [of(*each) for each in zip(grads, chosen, is_sum, strict=True)]


def _apply_cut(
    original: Function,
    optimizer: Any,
    grads: Sequence[Gradient],
    variables: Any,
    observer: Observer | None,
    reduce: sharded_update.Reduce,
) -> None:
    """Where each worker holds a part of the optimizer, or offloads it: it gets and accumulates its parts of sums."""
    chosen = optimizer._trainable_variables if variables is None else variables
    with setting(_applying, True), variable_updates.of_this_replica():
        parts = sharded_update.parts_of_sums(optimizer, grads, chosen, reduce)
        if observer is not None:
            observer(sharded_update.wholes_of(optimizer, parts, chosen))
        sharded_update.apply(original, optimizer, parts, chosen)


def _build(optimizer: Any, variables: Sequence[Any] | None) -> None:
    """An optimizer that is built while a step is traced makes its variables outside of the replicas, all at once."""
    if optimizer.built or variables is None:
        return
    if isinstance(settings_of(tf.distribute.get_strategy()).sums, CompiledSums):
        raise NotBuiltYet(f"the optimizer {optimizer.name!r} is not built yet")

    def outside(_: tf.distribute.Strategy) -> None:
        with tf.init_scope(), backend.name_scope(optimizer.name, caller=optimizer):
            optimizer.build(variables)

    tf.distribute.get_replica_context().merge_call(outside)
    optimizer.built = True


def _check_compression(optimizer: Any) -> None:
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) and replica_sums.compression() == tf.float16:
        raise UnsupportedError(
            "--compression float16 cannot be used with loss scaling and gradient accumulation: gradients that were "
            "found finite may overflow float16 once they are accumulated. Use --compression bfloat16, or none."
        )


def _check_overwritten(variables: Sequence[Any]) -> None:
    for variable in variables:
        if getattr(variable, "overwrite_with_gradient", False):
            raise UnsupportedError(
                f"The variable {variable.path!r} takes its gradient for its value (as float8 training does with its "
                "scales), and a sum over the replicas is not the value of one. Train in mixed_bfloat16, or on one "
                "device (`tfdist train` without --workers, --nproc and --logical-devices)."
            )
