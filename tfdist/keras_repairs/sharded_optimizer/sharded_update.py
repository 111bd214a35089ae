"""A step of an optimizer of which each worker holds a part.

The parts' own variables take over the values of the model's variables, Keras's code updates them with this worker's
parts of the gradients, and what has changed is put together for all. Which collectives run, and in which order, is the
same on all workers, whatever each of them holds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.replica_copies import own_copy
from tfdist.keras_repairs.sharded_embeddings.slice_exchange import own_slices, slices_for_owner
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharded_optimizer import clipping
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_linear
from tfdist.keras_repairs.sharded_optimizer.optimizer_parts import VariablePart
from tfdist.keras_repairs.sharded_parameters.summed_gradients import is_whole, whole_sum
from tfdist.keras_repairs.sharding.optimizer_policy import (
    is_sharded,
    policy_of,
    updating_optimizers,
    variable_policy,
)
from tfdist.keras_repairs.sharding.shards import shard_of
from tfdist.runtime.offload.offloading import on_host
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import part_sums

_log = logging.getLogger("tfdist")

_IS_SAID: AttachedValue[bool] = AttachedValue("is_said_what_is_held")

Function = Callable[..., Any]
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None
Reduce = Callable[[Sequence[Gradient]], list[Gradient]]


def parts_of_sums(
    optimizer: Any, grads: Sequence[Gradient], variables: Sequence[Any], reduce_whole: Reduce | None
) -> list[Gradient]:
    """This worker's parts of the sums of gradients over the workers, in the shapes of the variables' parts.

    Args:
        optimizer: Built.
        grads: This worker's, one a variable, or None. Those of variables that are cut are parts of sums already, but
            where code in `tfdist.gathered` has taken them.
        variables: The model's.
        reduce_whole: Sums gradients over the workers for all of them: those of variables that all have, and sparse
            ones, whose rows are few. None where every worker has whole sums already.
    """
    parts = [_part_of(optimizer, variable) for variable in variables]
    if reduce_whole is None:
        return [_own_part_of_gradient(gradient, part) for gradient, part in zip(grads, parts, strict=True)]
    found = [_of_stored(gradient, part, optimizer) for gradient, part in zip(grads, parts, strict=True)]
    rest = [(i, gradient) for i, gradient in enumerate(grads) if gradient is not None and found[i] is None]
    dense = [i for i, gradient in rest if isinstance(gradient, tf.Tensor)]
    cut = [(i, part) for i in dense if (part := parts[i]) is not None and part.storage is None and part.is_shared]
    flat = part_sums.sum_gradients_into_parts([grads[i] for i, _ in cut], [p.cut for _, p in cut]) if cut else ()
    for (i, part), value in zip(cut, flat, strict=True):
        found[i] = tf.reshape(value, part.cut.part_shape(part.worker))
    wholly = [i for i, _ in rest if found[i] is None]
    for i, total in zip(wholly, reduce_whole([grads[i] for i in wholly]) if wholly else (), strict=True):
        found[i] = _own_part(total, parts[i])
    return found


def _of_stored(gradient: Gradient, part: VariablePart | None, optimizer: Any) -> Gradient:
    """The part that the optimizer updates of a sum of gradients by what workers store in parts; None for other ones.

    Those by weights come as the sums of what the workers store of them, those by embeddings as each worker's slices.
    """
    if part is None or part.storage is None or gradient is None or is_whole(gradient):
        return None
    if isinstance(part.whole, TableVariable):
        if isinstance(gradient, tf.IndexedSlices):
            return slices_for_owner(gradient, part.whole, is_linear=is_linear(optimizer))
        return None
    if part.is_stored:
        return gradient
    return _own_part(whole_sum(gradient, part.storage), part)


def _own_part_of_gradient(total: Gradient, part: VariablePart | None) -> Gradient:
    if part is not None and isinstance(part.whole, TableVariable) and isinstance(total, tf.IndexedSlices):
        return own_slices(total, part.whole)
    return None if total is None else _own_part(total, part)


def _own_part(total: Any, part: VariablePart | None) -> Gradient:
    """A worker's part of a sum that all of them have whole."""
    if part is None:
        return total
    if isinstance(total, tf.IndexedSlices):
        return part_sums.rows_of_part(total, part.cut, part.worker)
    return part_sums.cut_out(total, part.cut, part.worker)


def wholes_of(optimizer: Any, reduced: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
    """Gradients put together of all workers' parts, for those who want to look at them.

    For that of a sharded embedding, and a sparse one of a variable that is cut, stands a number of the same norm.

    Args:
        optimizer: Built.
        reduced: What `parts_of_sums` returned.
        variables: The model's.
    """
    found: list[Gradient] = [None] * len(reduced)
    cuts = {}
    for i, (gradient, variable) in enumerate(zip(reduced, variables, strict=True)):
        part = _part_of(optimizer, variable)
        if part is None:
            found[i] = gradient
        elif isinstance(gradient, tf.Tensor) and not isinstance(part.whole, TableVariable):
            cuts[i] = part.cut
        elif gradient is not None:
            found[i] = tf.sqrt(part_sums.sum_small(tf.reduce_sum(tf.square(tf.convert_to_tensor(gradient)))))
    for i, whole in zip(cuts, part_sums.join([reduced[i] for i in cuts], list(cuts.values())), strict=True):
        found[i] = whole
    return found


def apply(original: Function, optimizer: Any, grads: Sequence[Gradient], variables: Sequence[Any] | None) -> None:
    """A step of a built optimizer, maybe one with others inside, on parts of gradients.

    Args:
        original: Keras's method.
        optimizer: Whose.
        grads: This worker's parts of the global batch's gradients.
        variables: The model's; None for those that the optimizer was built with.
    """
    variables = optimizer._trainable_variables if variables is None else variables
    present = [variable for variable, gradient in zip(variables, grads, strict=True) if gradient is not None]
    used = _parts_of_weights(optimizer, _used(optimizer, present))
    changed = _parts_of_weights(optimizer, _changed(optimizer, present))
    before = {id(each): tf.identity(own_copy(each._iterations)) for each in updating_optimizers(optimizer)}
    for each in updating_optimizers(optimizer):
        _say_what_is_held(each)
    _take_over(used)
    apply_to_parts(original, optimizer, grads, variables)
    _hand_over(changed)
    _release(used)
    _constrain(optimizer, present, before)


def apply_to_parts(original: Function, optimizer: Any, grads: Sequence[Gradient], variables: Any) -> None:
    """Keras's `apply` of an optimizer that updates variables, inside of `apply`."""
    policy = policy_of(optimizer)
    if policy is None:  # one with others inside
        original(optimizer, grads, variables)
        return
    chosen = optimizer._trainable_variables if variables is None else variables
    present = [variable for variable, gradient in zip(chosen, grads, strict=True) if gradient is not None]
    is_part = [policy.workers > 1 and policy.of(variable) is not None for variable in present]
    with clipping.of_parts(is_part), on_host(settings_of(optimizer._distribution_strategy).offload):
        original(optimizer, grads, [policy.updated(variable) for variable in chosen])


def would_be_cut(optimizer: Any) -> bool:
    """Whether workers hold parts of an optimizer, or will once it is built."""
    settings = settings_of(optimizer._distribution_strategy)
    return settings.shard is not None or settings.offload is not None or is_sharded(optimizer)


def _part_of(optimizer: Any, variable: Any) -> VariablePart | None:
    found = variable_policy(optimizer, variable)
    assert found is None or isinstance(found, VariablePart), "an optimizer is given no others"
    return found


def _say_what_is_held(optimizer: Any) -> None:
    policy = policy_of(optimizer)
    if policy is None or _IS_SAID.get(optimizer):
        return
    _IS_SAID.set(optimizer, True)
    slots = [(shard, tf.as_dtype(shard.stored.dtype).size) for shard in policy.shards()]
    held = sum(shard.size * size for shard, size in slots)
    offload = settings_of(optimizer._distribution_strategy).offload
    _log.info(
        "optimizer %s: its state is %s; this worker holds %.1f of %.1f MiB%s",
        optimizer.name,
        f"cut between {policy.granularity}" if policy.workers > 1 else "whole",
        held / 2**20,
        sum(math.prod(shard.full_shape) * size for shard, size in slots) / 2**20,
        "" if offload is None else f", {offload}",
    )


def _used(optimizer: Any, present: Sequence[Any]) -> Iterator[Any]:
    """The variables that the step reads: those with a gradient, and those of which an average is kept."""
    yield from present
    keys = {id(variable) for variable in present}
    for each in updating_optimizers(optimizer):
        if each.use_ema:
            yield from (variable for variable in each._trainable_variables if id(variable) not in keys)


def _changed(optimizer: Any, present: Sequence[Any]) -> Iterator[Any]:
    """The variables that the step may change: those with a gradient, and those that an average may replace."""
    yield from present
    keys = {id(variable) for variable in present}
    for each in updating_optimizers(optimizer):
        if each.use_ema and each.ema_overwrite_frequency:
            yield from (variable for variable in each._trainable_variables if id(variable) not in keys)


def _parts_of_weights(optimizer: Any, variables: Iterable[Any]) -> list[VariablePart]:
    """The parts of those variables that have one, but for embeddings, of which nobody reads a whole."""
    found = (_part_of(optimizer, variable) for variable in variables)
    return [part for part in found if part is not None and not isinstance(part.whole, TableVariable)]


def _take_over(parts: Sequence[VariablePart]) -> None:
    for part in _apart(parts):
        value = part_sums.cut_out(_whole_of(part), part.cut, part.worker)
        part.variable._value.assign(value, read_value=False)


def _whole_of(part: VariablePart) -> tf.Tensor:
    if part.storage is None:
        return tf.convert_to_tensor(own_copy(part.whole))
    return part_sums.join_one(part.storage.stored.read_value(), part.storage.cut)


def _hand_over(parts: Sequence[VariablePart]) -> None:
    parts = _apart(parts)
    values = [
        tf.ensure_shape(tf.reshape(part.variable._value.read_value(), [-1]), [part.cut.part_size(part.worker)])
        for part in parts
    ]
    for part, whole in zip(parts, part_sums.join(values, [part.cut for part in parts]), strict=True):
        if part.storage is None:
            own_copy(part.whole).assign(whole, read_value=False)
        else:
            own = part_sums.cut_off(whole, part.storage.cut, part.worker)
            part.storage.stored.assign(own, read_value=False)


def _apart(parts: Sequence[VariablePart]) -> list[VariablePart]:
    """Those that are copies of what the model has, and not what it has itself."""
    return [part for part in parts if not part.is_stored]


def _release(parts: Sequence[VariablePart]) -> None:
    """Gives up the memory of the parts' own variables, which a step of the model does not need."""
    for part in _apart(parts):
        variable = part.variable._value
        variable.assign(tf.zeros([0] * variable.shape.rank, variable.dtype), read_value=False)


def _constrain(optimizer: Any, present: Sequence[Any], before: dict[int, tf.Tensor]) -> None:
    """Applies constraints to whole variables that are updated in parts, where Keras has applied the gradients."""
    known = {
        id(part.whole)
        for part in _parts_of_weights(optimizer, present)
        if getattr(part.whole, "constraint", None) is not None
    }
    for each in updating_optimizers(optimizer):
        bound = [variable for variable in each._trainable_variables if id(variable) in known]
        if not bound:
            continue
        is_applied = tf.not_equal(tf.identity(own_copy(each._iterations)), before[id(each)])
        for variable in bound:
            value = keras.ops.convert_to_tensor(variable.constraint(variable))
            shard = shard_of(variable)
            copy, value = (own_copy(variable), value) if shard is None else (shard.stored, shard.of(value))
            copy.assign(tf.where(is_applied, tf.cast(value, copy.dtype), copy), read_value=False)
