"""Reduces gradients, here alone: they are summed over the replicas before anything else is done to them.

Keras clips, checks and accumulates each replica's own gradient and reduces last; a norm is not a sum, so what it then
clips is wrong. Here the optimizer receives the global batch's gradient, and proceeds as on one replica.

Such as those that an evolution strategy computes with NumPy, those of a loop without `strategy.run`, and those that a
script has reduced itself. Keras would look for a replica's context, which is not there.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras import ops
from keras.src import backend
from tensorflow.python.distribute.values import PerReplica
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import replica_copies
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_copies import is_first_replica
from tfdist.keras_repairs.base.replica_step import current_step, global_batch_step, is_one_of_several, replica_count
from tfdist.keras_repairs.base.variables import outside_of_replicas
from tfdist.keras_repairs.coupling.trials.steps.step_capture import captures_update
from tfdist.keras_repairs.gradient_sums import alike, reduce_gradients, weighted
from tfdist.keras_repairs.optimizer import gradient_accumulation, sharded_step
from tfdist.keras_repairs.optimizer.apply_scope import APPLY_SCOPE
from tfdist.keras_repairs.optimizer.averages import warn_of_plain_keras
from tfdist.keras_repairs.sharding_policies.optimizer_policy import is_sharded
from tfdist.keras_repairs.sharding_policies.shards import Shard, shard_of
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums

GivenGradient = Any
"""A value that TensorFlow makes a tensor of, a tensor, slices, one of these for each replica, or None."""


def apply_given(
    apply_on_replica: Callable[..., None], optimizer: Any, grads: Sequence[GivenGradient], variables: Any
) -> None:
    """Applies gradients from outside of the replicas. All workers call it together.

    The first replica has them and the others nothing, so that the sum over the replicas, which the optimizer takes, is
    what was given. Workers that were given others, by rounding or by chance, so keep the same weights nevertheless.

    Args:
        apply_on_replica: `Optimizer.apply` as it is repaired for the context of a replica.
        optimizer: Whose step it is, built or not.
        grads: One a variable. Those with a value of its own for each replica, as `strategy.run` returns, are summed.
        variables: The model's; None for those that the optimizer was built with.
    """
    grads = list(grads)
    chosen = list(optimizer._trainable_variables if variables is None else variables)
    is_summed = [_has_one_a_replica(gradient) for gradient in grads]

    def on_replica(own: Sequence[GivenGradient]) -> None:
        parts = [_part(*each) for each in zip(own, is_summed, strict=True)]
        for part, variable in zip(parts, chosen, strict=True):
            shard = None if part is None else shard_of(variable)
            if shard is not None:
                shard.keep_full(part)
        apply_on_replica(optimizer, parts, None if variables is None else chosen)

    tf.distribute.get_strategy().extended.call_for_each_replica(on_replica, args=(grads,))


def _has_one_a_replica(gradient: GivenGradient) -> bool:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return isinstance(values, PerReplica)


def _part(gradient: GivenGradient, is_summed: bool) -> tf.Tensor | tf.IndexedSlices | None:
    """Returns what a replica has of a gradient."""
    if gradient is None:
        return None
    value = _slices(gradient) if isinstance(gradient, tf.IndexedSlices) else tf.convert_to_tensor(gradient)
    if is_summed or is_first_replica():
        return value
    if isinstance(value, tf.IndexedSlices):
        # None of its rows: an optimizer may heed which have a slice, and how many.
        return tf.IndexedSlices(value.values[:0], value.indices[:0], value.dense_shape)
    return tf.zeros_like(value)


def _slices(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Slices of tensors, which TensorFlow also makes of arrays and tuples, and then cannot add up."""
    values, indices = tf.convert_to_tensor(gradient.values), tf.convert_to_tensor(gradient.indices)
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


Function = Callable[..., Any]
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None
Observer = Callable[[Sequence[Gradient]], None]


def apply(original: Function, observer: Observer | None = None) -> Function:
    """Repairs `Optimizer.apply` and `LossScaleOptimizer.apply`: reduces first, then clips, checks, decays and updates.

    Args:
        original: The method.
        observer: Called, while a step is traced, with the gradients of the global batch as the optimizer gets them.
    """

    def repaired(self: Any, grads: Sequence[Gradient], trainable_variables: Any = None) -> None:
        if captures_update(self, grads, trainable_variables):
            return
        if APPLY_SCOPE.get().is_inside:
            # The optimizer inside of another one.
            sharded_step.apply_to_shards(original, self, grads, trainable_variables)
            return
        if tf.distribute.in_cross_replica_context():
            apply_given(repaired, self, grads, trainable_variables)
            return
        with changing(APPLY_SCOPE, is_inside=True):
            if not is_one_of_several() and settings_of(self._distribution_strategy).offload is not None:
                build_optimizer(self, None if trainable_variables is None else list(trainable_variables))
                _apply_sharded(original, self, grads, trainable_variables, observer, None)
            elif is_one_of_several() or global_batch_step() is not None:
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
    build_optimizer(optimizer, variables)
    if global_batch_step() is None:
        _check_overwritten(variables or optimizer._trainable_variables)
    if _given_as_sums():
        grads = grads if APPLY_SCOPE.get().are_sums else alike(grads)
        if is_sharded(optimizer):
            _apply_sharded(original, optimizer, grads, variables, observer, None)
            return
        if not gradient_accumulation.steps_of(optimizer) or APPLY_SCOPE.get().is_by_one:
            _update(original, optimizer, grads, variables, observer)
            return
        # What is kept is kept of sums over the replicas.
        grads = _summands(grads)
    else:
        grads = _weighted(optimizer, grads, variables)
    if is_sharded(optimizer):
        _apply_sharded(original, optimizer, grads, variables, observer, reduce_gradients)
        return

    def reduce(grads: Sequence[Gradient]) -> list[Gradient]:
        reduced = reduce_gradients(grads)
        if observer is not None:
            observer(reduced)
        return reduced

    def update(reduced: Sequence[Gradient]) -> None:
        # Accumulation calls this in threads of TensorFlow's, which do not have the context.
        _update(original, optimizer, reduced, variables, None)

    if gradient_accumulation.steps_of(optimizer):
        _check_compression(optimizer)
        gradient_accumulation.apply(optimizer, grads, variables, reduce, update)
    else:
        update(reduce(grads))


def _update(
    original: Function, optimizer: Any, reduced: Sequence[Gradient], variables: Any, observer: Observer | None
) -> None:
    if observer is not None:
        observer(reduced)
    with changing(APPLY_SCOPE, is_inside=True), replica_copies.of_this_replica():
        original(optimizer, reduced, variables)


def _given_as_sums() -> bool:
    step = current_step()
    sums_at_tape = step is not None and step.mode.sums_at_tape
    return APPLY_SCOPE.get().are_sums or global_batch_step() is not None or sums_at_tape


def _summands(grads: Sequence[Gradient]) -> list[Gradient]:
    """Returns what each replica adds to gradients that every replica has, without slices, which would come once from
    each."""
    dense = [None if g is None else tf.convert_to_tensor(g) for g in grads]
    return [None if g is None else g * tf.cast(1 / replica_count(), g.dtype) for g in dense]


def sums_at_tape(original: Function) -> Function:
    """Repairs `tf.GradientTape.gradient`: in a step that asks for it, gradients by variables are of the global batch.

    Whatever the step does with them then, it does as on one replica: a norm, a clipping of its own, a second pass at
    weights that were moved along them.
    """

    def repaired(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = original(self, target, sources, *args, **kwargs)
        step = current_step()
        if step is None or not step.mode.sums_at_tape:
            return gradients
        leaves, found = tf.nest.flatten(sources), tf.nest.flatten(gradients)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, keras.Variable | tf.Variable)]
        summed = reduce_gradients(weighted([found[i] for i in places])) if places else []
        for place, gradient in zip(places, summed, strict=True):
            found[place] = gradient
        return tf.nest.pack_sequence_as(gradients, found)

    return repaired


def init(original: Function) -> Function:
    """Repairs `Optimizer.__init__`: an `apply` of the user's own is given the gradients of the global batch.

    Whatever it does to them before Keras's `apply` gets them (it normalizes, centralizes, clips by a norm of its own),
    or in its place (it assigns the variables itself), is done to sums, as on one replica.
    """

    def repaired(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        for name, summing in (("apply", _of_sums), ("apply_gradients", _of_pairs_of_sums)):
            owner = next(cls for cls in type(self).__mro__ if name in vars(cls))
            if not owner.__module__.startswith("keras.src."):
                # On the object, past Keras, which would track it.
                object.__setattr__(self, name, types.MethodType(summing(getattr(type(self), name)), self))

    return repaired


def _of_sums(apply: Function) -> Function:
    @functools.wraps(apply)
    def repaired(self: Any, grads: Any, trainable_variables: Any = None, *args: Any, **kwargs: Any) -> Any:
        variables = None if trainable_variables is None else list(trainable_variables)
        return _with_sums(self, list(grads), variables, lambda sums: apply(self, sums, variables, *args, **kwargs))

    return repaired


def _of_pairs_of_sums(apply_gradients: Function) -> Function:
    @functools.wraps(apply_gradients)
    def repaired(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        grads, variables = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return _with_sums(
            self,
            grads,
            variables,
            lambda sums: apply_gradients(self, list(zip(sums, variables, strict=True)), *args, **kwargs),
        )

    return repaired


def _with_sums(optimizer: Any, grads: list[Gradient], variables: list[Any] | None, apply: Function) -> Any:
    """Calls an optimizer's own `apply` with gradients that are summed over the replicas, and before it sees them."""
    if captures_update(optimizer, grads, variables):
        return None
    scope = APPLY_SCOPE.get()
    if scope.is_inside or scope.are_sums or tf.distribute.in_cross_replica_context():
        return apply(grads)
    if global_batch_step() is None and not is_one_of_several():
        return apply(grads)
    build_optimizer(optimizer, variables)
    grads = alike(grads) if _given_as_sums() else _sums_of(optimizer, grads, variables)
    with changing(APPLY_SCOPE, are_sums=True), replica_copies.of_this_replica():
        return apply(grads)


def _sums_of(optimizer: Any, grads: list[Gradient], variables: list[Any] | None) -> list[Gradient]:
    chosen = optimizer._trainable_variables if variables is None else variables
    shards = (shard_of(variable) for variable in chosen)
    if any(shard is not None and shard.sums_at_tape for shard in shards):
        raise UnsupportedError(
            f"{type(optimizer).__qualname__} has an apply of its own, which takes full gradients, and with --shard "
            "zero3 each worker has shards of them. Train with --shard zero2, which cuts gradients after that."
        )
    return reduce_gradients(weighted(grads))


def _weighted(optimizer: Any, grads: Sequence[Gradient], variables: Sequence[Any] | None) -> list[Gradient]:
    """The gradients, weighted by samples; those that tapes have summed already as they are."""
    chosen = optimizer._trainable_variables if variables is None else variables
    shards = [shard_of(variable) for variable in chosen]
    is_sum = [shard is not None and shard.is_summed(g) for g, shard in zip(grads, shards, strict=True)]
    rest = iter(weighted([g for g, summed in zip(grads, is_sum, strict=True) if not summed]))

    def of(gradient: Gradient, shard: Shard | None, summed: bool) -> Gradient:
        if summed:
            return gradient
        found = next(rest)
        return found if found is None or shard is None else shard.keep_full(found)

    return [of(*each) for each in zip(grads, shards, is_sum, strict=True)]


def _apply_sharded(
    original: Function,
    optimizer: Any,
    grads: Sequence[Gradient],
    variables: Any,
    observer: Observer | None,
    reduce: sharded_step.Reduce | None,
) -> None:
    """Applies gradients to a sharded or offloaded optimizer: each worker gets and accumulates its shards of sums."""
    chosen = optimizer._trainable_variables if variables is None else variables
    with changing(APPLY_SCOPE, is_inside=True), replica_copies.of_this_replica():
        shards = sharded_step.shards_of_sums(optimizer, grads, chosen, reduce)
        if observer is not None:
            observer(sharded_step.full_gradients(optimizer, shards, chosen))
        sharded_step.apply(original, optimizer, shards, chosen)


def build_optimizer(optimizer: Any, variables: Sequence[Any] | None) -> None:
    """Builds an optimizer in a replica's step: it makes its variables outside of the replicas, all at once.

    Args:
        optimizer: None, or an optimizer.
        variables: Those that it trains; nothing is built without any.
    """
    if optimizer is None or optimizer.built or not variables:
        return
    warn_of_plain_keras(optimizer)

    def outside() -> None:
        with tf.init_scope(), backend.name_scope(optimizer.name, caller=optimizer):
            optimizer.build(variables)

    outside_of_replicas(outside)
    optimizer.built = True


def scale_loss(original: Function) -> Function:
    """Repairs `LossScaleOptimizer.scale_loss`: a loop of the user's that is traced before the optimizer is built scales
    by the variable, too.

    On one device `tf.function` traces such a function twice, as it makes the variables of the optimizer: first by the
    initial scale, and then by the variable. Here they are made outside of the function, which is traced once.

    Raises:
        UnsupportedError: In a loop of the function, which reads no variable that is not there yet.
    """

    def repaired(self: Any, loss: tf.Tensor) -> tf.Tensor:
        if self.built or current_step() is not None or tf.executing_eagerly() or not is_one_of_several():
            return original(self, loss)

        def scale() -> tf.Tensor:
            value = self.dynamic_scale if self.built else self.initial_scale
            return tf.convert_to_tensor(value, tf.float32)

        graph = tf.compat.v1.get_default_graph()
        if _is_in_control_flow(graph):
            raise UnsupportedError(
                "scale_loss of a LossScaleOptimizer that is not built was called in a loop or a branch of a "
                "tf.function, where it cannot scale by the variable yet. Expected a built optimizer. Call "
                "optimizer.build(model.trainable_variables) before the loop, under `with strategy.scope():`."
            )
        captured = graph.capture_call_time_value(
            scale, tf.TensorSpec((), tf.float32), default_value=tf.constant(self.initial_scale, tf.float32)
        )
        return ops.multiply(loss, captured)

    return repaired


def _is_in_control_flow(graph: Any) -> bool:
    """Returns whether a graph is in that of a loop or a branch, or is one."""
    while graph is not None and not isinstance(graph, ControlFlowFuncGraph):
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


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
