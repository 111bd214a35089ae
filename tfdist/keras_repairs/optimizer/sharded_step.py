"""A step of an optimizer of which each worker has a shard.

What is updated takes over the values of the model's variables, Keras's code updates it with this worker's shards of the
gradients, and what has changed is handed over to the model. Which collectives run, and in which order, is the same on
all workers, whatever each of them holds.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import own_copy
from tfdist.keras_repairs.sharding_policies.optimizer_policy import policy_of, updating_optimizers, variable_policy
from tfdist.keras_repairs.sharding_policies.variable_policy import Exchange, Gradient, VariablePolicy
from tfdist.runtime.offload.offloading import on_host
from tfdist.runtime.strategy_settings import settings_of

_log = logging.getLogger("tfdist")

Function = Callable[..., Any]
Reduce = Callable[[Sequence[Gradient]], list[Gradient]]


def shards_of_sums(
    optimizer: Any, grads: Sequence[Gradient], variables: Sequence[Any], reduce_full: Reduce | None
) -> list[Gradient]:
    """This worker's shards of the sums of gradients over the workers, in the shapes of what is updated.

    Args:
        optimizer: Built.
        grads: This worker's, one a variable, or None; or what tapes have summed already, as policies know.
        variables: The model's.
        reduce_full: Sums gradients over the workers for all of them. None where every worker has full sums already.
    """
    policies = [variable_policy(optimizer, variable) for variable in variables]
    reductions = [
        None if reduce_full is None or gradient is None else policy.reduction(gradient, optimizer)
        for policy, gradient in zip(policies, grads, strict=True)
    ]
    found: list[Gradient] = list(grads)
    _exchange(found, policies, reductions)
    rest = [i for i, gradient in enumerate(grads) if gradient is not None and reductions[i] is None]
    if reduce_full is not None and rest:
        for i, total in zip(rest, reduce_full([grads[i] for i in rest]), strict=True):
            found[i] = total
    for i in rest:
        found[i] = policies[i].of_sum(found[i])
    return found


def full_gradients(optimizer: Any, shards: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
    """Gradients put together of all workers' shards, for those who want to look at them; see `gathering`.

    Args:
        optimizer: Built.
        shards: What `shards_of_sums` returned.
        variables: The model's.
    """
    found = list(shards)
    policies = [variable_policy(optimizer, variable) for variable in variables]
    gatherings = [None if shard is None else each.gathering for shard, each in zip(shards, policies, strict=True)]
    _exchange(found, policies, gatherings)
    return found


def apply(original: Function, optimizer: Any, grads: Sequence[Gradient], variables: Sequence[Any] | None) -> None:
    """A step of a built optimizer, maybe one with others inside, on shards of gradients.

    Args:
        original: Keras's method.
        optimizer: Whose.
        grads: This worker's shards of the global batch's gradients.
        variables: The model's; None for those that the optimizer was built with.
    """
    variables = optimizer._trainable_variables if variables is None else variables
    present = [variable for variable, gradient in zip(variables, grads, strict=True) if gradient is not None]
    used = [variable_policy(optimizer, variable) for variable in _used(optimizer, present)]
    changed = [variable_policy(optimizer, variable) for variable in _changed(optimizer, present)]
    before = {id(each): tf.identity(own_copy(each._iterations)) for each in updating_optimizers(optimizer)}
    for each in updating_optimizers(optimizer):
        _say_what_is_held(each)
    for policy in used:
        policy.take_over()
    apply_to_shards(original, optimizer, grads, variables)
    for hand_over in dict.fromkeys(policy.handing_over for policy in changed):
        if hand_over is not None:
            hand_over([policy for policy in changed if policy.handing_over is hand_over])
    for policy in used:
        policy.release()
    _constrain(optimizer, present, before)


def apply_to_shards(original: Function, optimizer: Any, grads: Sequence[Gradient], variables: Any) -> None:
    """Keras's `apply` of an optimizer that updates variables, inside of `apply`."""
    policy = policy_of(optimizer)
    if policy is None:  # one with others inside
        original(optimizer, grads, variables)
        return
    chosen = optimizer._trainable_variables if variables is None else variables
    present = [variable for variable, gradient in zip(chosen, grads, strict=True) if gradient is not None]
    with policy.updating(present), on_host(settings_of(optimizer._distribution_strategy).offload):
        original(optimizer, grads, [policy.of(variable).updated for variable in chosen])


def _exchange(
    gradients: list[Gradient], policies: Sequence[VariablePolicy], exchanges: Sequence[Exchange | None]
) -> None:
    """Replaces gradients by what exchanges make of them, those of one exchange all at once."""
    for exchange in dict.fromkeys(exchanges):
        if exchange is not None:
            places = [i for i, each in enumerate(exchanges) if each is exchange]
            exchanged = exchange([policies[i] for i in places], [gradients[i] for i in places])
            for i, result in zip(places, exchanged, strict=True):
                gradients[i] = result


def _say_what_is_held(optimizer: Any) -> None:
    policy = policy_of(optimizer)
    if policy is None or policy.is_said:
        return
    policy.is_said = True
    slots = [(shard, tf.as_dtype(shard.stored.dtype).size) for shard in policy.shards()]
    offload = settings_of(optimizer._distribution_strategy).offload
    _log.info(
        "optimizer %s: its state is %s; this worker holds %.1f of %.1f MiB%s",
        optimizer.name,
        f"cut between {policy.granularity}" if policy.workers > 1 else "whole",
        sum(shard.size * size for shard, size in slots) / 2**20,
        sum(math.prod(shard.full_shape) * size for shard, size in slots) / 2**20,
        "" if offload is None else f", {offload}",
    )


def _used(optimizer: Any, present: Sequence[Any]) -> Iterator[Any]:
    """The variables that the step reads: those with a gradient, and those of which an average is kept."""
    return _with(present, (each for each in updating_optimizers(optimizer) if each.use_ema))


def _changed(optimizer: Any, present: Sequence[Any]) -> Iterator[Any]:
    """The variables that the step may change: those with a gradient, and those that an average may replace."""
    averaging = (each for each in updating_optimizers(optimizer) if each.use_ema and each.ema_overwrite_frequency)
    return _with(present, averaging)


def _with(present: Sequence[Any], optimizers: Iterable[Any]) -> Iterator[Any]:
    yield from present
    known = {id(variable) for variable in present}
    for each in optimizers:
        yield from (variable for variable in each._trainable_variables if id(variable) not in known)


def _constrain(optimizer: Any, present: Sequence[Any], before: dict[int, tf.Tensor]) -> None:
    """Applies constraints to full variables of which shards are updated, where Keras has applied the gradients."""
    policies = [variable_policy(optimizer, variable) for variable in present]
    bound = {
        id(each.variable): each
        for each in policies
        if each.constrains_full and getattr(each.variable, "constraint", None) is not None
    }
    for each in updating_optimizers(optimizer):
        own = [bound[id(variable)] for variable in each._trainable_variables if id(variable) in bound]
        if own:
            is_applied = tf.not_equal(tf.identity(own_copy(each._iterations)), before[id(each)])
            for policy in own:
                policy.constrain(is_applied)
