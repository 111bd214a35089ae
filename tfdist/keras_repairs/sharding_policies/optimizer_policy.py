"""The sharding of an optimizer: what this worker updates of each variable, and keeps of the state beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.model_optimizers import optimizers_of
from tfdist.keras_repairs.sharding_policies.shards import Shard, stored_shards
from tfdist.keras_repairs.sharding_policies.variable_policy import Replicated, VariablePolicy
from tfdist.runtime.offload.offloading import on_host
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_variables

Granularity = Literal["elements", "variables"]
"""Between what an optimizer can be cut: between any elements, or between variables, so that one worker has each."""

_CONTAINERS: tuple[Any, ...] = (keras.optimizers.LossScaleOptimizer,) + tuple(
    getattr(keras.optimizers, name) for name in ("MultiOptimizer",) if hasattr(keras.optimizers, name)
)


@dataclass
class _Slot:
    """A variable of an optimizer's state, of which this worker stores a shard: `None` until it is known whose it is."""

    variable: keras.Variable
    shape: tuple[int, ...]
    initializer: Any
    shard: Shard | None


class OptimizerPolicy:
    """The sharding of one optimizer.

    Args:
        optimizer: Which is about to make its state.
        granularity: How it is cut. Variables without a policy are full on every worker, and so is their state.
        workers: How many share it.
        is_known: Whether all of its state is that of one of Keras's own.

    Attributes:
        reference: Whose the state is that is being made; None while the optimizer does not say so.
        present: Whose gradients the optimizer has been given.
        is_said: Whether the log says what this worker has of the state.
    """

    def __init__(self, optimizer: Any, granularity: Granularity, workers: int, *, is_known: bool) -> None:
        self.granularity, self.workers = granularity, workers
        self._optimizer, self._is_known = optimizer, is_known
        self._policies: dict[Any, VariablePolicy] = {}
        self._keys: dict[Any, Any] = {}
        self._slots: list[_Slot] = []
        self.reference: VariablePolicy | None = None
        self.is_said = False
        self.present: Sequence[VariablePolicy] = []

    def add(self, policy: VariablePolicy) -> None:
        """Adds that of a variable; all of them in the order of the optimizer's."""
        key = self._optimizer._var_key(policy.variable)
        self._policies[key] = policy
        self._keys[self._optimizer._var_key(policy.updated)] = key

    def key_of_full(self, key: Any) -> Any:
        """The key by which an optimizer finds its state: that of the model's variable, also for what is updated."""
        return self._keys.get(key, key)

    def of(self, variable: Any) -> VariablePolicy:
        """That of a model's variable, or of what is updated for one."""
        return self._policies.get(self._optimizer._var_key(variable)) or Replicated(variable)

    @contextlib.contextmanager
    def updating(self, variables: Sequence[Any]) -> Iterator[None]:
        """Inside, the optimizer is given gradients of these variables."""
        self.present = [self.of(variable) for variable in variables]
        try:
            yield
        finally:
            self.present = []

    @contextlib.contextmanager
    def making_slot_of(self, reference: VariablePolicy) -> Iterator[None]:
        """Inside, the optimizer makes state beside a variable."""
        self.reference = reference
        try:
            yield
        finally:
            self.reference = None

    def add_slot(self, variable: Any, shape: tuple[int, ...], initializer: Any) -> None:
        """Adds a variable that the optimizer has made for its state.

        Args:
            variable: It has the shard; or nothing yet, where the optimizer does not say beside which variable it is.
            shape: That which the optimizer has asked for.
            initializer: Makes its first value.
        """
        shard = None if self.reference is None else self.reference.slot(variable)
        self._slots.append(_Slot(variable, shape, keras.initializers.get(initializer), shard))

    def shard_of(self, variable: Any) -> Shard | None:
        """Returns what this worker stores of a variable of the state; None where it is full, or not known yet what it
        is."""
        return next((slot.shard for slot in self._slots if slot.variable is variable), None)

    def shards(self) -> list[Shard]:
        """Those of the state, in the order in which they were made.

        Raises:
            UnsupportedError: The optimizer has made state that cannot be cut.
        """
        if any(slot.shard is None for slot in self._slots):
            self._settle()
        return [slot.shard for slot in self._slots if slot.shard is not None]

    def _settle(self) -> None:
        """Finds out to which variables state belongs that was made without naming one: by its place in lists of it."""
        optimizer, policies = self._optimizer, list(self._policies.values())
        lists = [value for value in vars(optimizer).values() if isinstance(value, list) and len(value) == len(policies)]
        places = {id(entry): place for entries in lists for place, entry in enumerate(entries) if entry is not None}
        for slot in self._slots:
            if slot.shard is not None:
                continue
            place = places.get(id(slot.variable))
            if place is None:
                raise _of_no_variable(optimizer, slot.variable)
            slot.shard = policies[place].slot(slot.variable, slot.shape)
            if policies[place].is_held:
                _make(slot, optimizer)
        known = {id(slot.variable) for slot in self._slots} | {id(optimizer._iterations), id(optimizer._learning_rate)}
        others = [variable for variable in optimizer._variables if id(variable) not in known]
        if others and not self._is_known:
            raise _of_no_variable(optimizer, others[0])


_POLICY: AttachedValue[OptimizerPolicy] = AttachedValue("optimizer_policy")


def set_policy(optimizer: Any, policy: OptimizerPolicy) -> None:
    """Has an optimizer sharded in this way."""
    _POLICY.set(optimizer, policy)


def policy_while_built(optimizer: Any) -> OptimizerPolicy | None:
    """The policy of an optimizer that may still be making its state."""
    return _POLICY.get(optimizer)


def policy_of(optimizer: Any) -> OptimizerPolicy | None:
    """The policy of an optimizer that is built; None where every worker has all of it, or for one with others inside.

    Raises:
        UnsupportedError: It has made state that cannot be cut.
    """
    found = _POLICY.get(optimizer)
    if found is not None:
        found.shards()
    return found


def variable_policy(optimizer: Any, variable: Any) -> VariablePolicy:
    """Returns how workers share the training of a model's variable by an optimizer, or by one inside of it."""
    found = (policy.of(variable) for each in updating_optimizers(optimizer) if (policy := _POLICY.get(each)))
    return next((policy for policy in found if not isinstance(policy, Replicated)), Replicated(variable))


def updates(optimizer: Any, variable: Any) -> bool:
    """Returns whether an optimizer has anything of what it updates for a variable on this worker."""
    policy = _POLICY.get(optimizer)
    return policy is None or policy.granularity == "elements" or policy.of(variable).is_held


def own_of_state(optimizer: Any, variable: Any, value: Any) -> Any:
    """Returns what an optimizer assigns to a variable of its state while it is built: of a full value this worker's
    shard."""
    policy = _POLICY.get(optimizer)
    shard = None if policy is None else policy.shard_of(variable)
    return value if shard is None or tuple(value.shape) != shard.full_shape else shard.of(value)


def is_sharded(optimizer: Any) -> bool:
    """Returns whether workers have shards of a built optimizer, or of those inside of it."""
    return any(_POLICY.get(each) is not None for each in updating_optimizers(optimizer))


def would_be_sharded(optimizer: Any) -> bool:
    """Returns whether workers have shards of an optimizer, or will once it is built."""
    settings = settings_of(optimizer._distribution_strategy)
    return settings.shard is not None or settings.offload is not None or is_sharded(optimizer)


def policies_of(optimizers: Any) -> Iterator[OptimizerPolicy]:
    """Those of the optimizers among some that are built and sharded."""
    for optimizer in optimizers:
        found = policy_of(optimizer) if optimizer.built else None
        if found is not None:
            yield found


def shards_of(model: Any) -> list[Shard]:
    """All shards of a model's weights, and of the state of its optimizers: the same list on every worker.

    Args:
        model: Built and compiled, with its optimizer.
    """
    of_optimizers = (shard for policy in policies_of(optimizers_of(model)) for shard in policy.shards())
    return [*stored_shards(model), *of_optimizers]


def is_container(optimizer: Any) -> bool:
    """Returns whether an optimizer leaves updates to others inside of it."""
    return isinstance(optimizer, _CONTAINERS)


def updating_optimizers(optimizer: Any) -> Iterator[Any]:
    """The optimizers inside of one that update variables; the one itself where there are none."""
    if not is_container(optimizer):
        yield optimizer
        return
    inner = getattr(optimizer, "inner_optimizer", None)
    for other in getattr(optimizer, "optimizers", ()) if inner is None else (inner,):
        yield from updating_optimizers(other)


def refusal(optimizer: Any, why: str) -> UnsupportedError:
    """The error of an optimizer that cannot be cut.

    Args:
        optimizer: Which.
        why: In words.
    """
    return UnsupportedError(
        f"--shard cannot cut the optimizer {type(optimizer).__name__} ({optimizer.name}): {why}. Expected an optimizer "
        "of Keras, or one whose build makes its state with add_variable_from_reference or in lists beside the "
        "variables, and whose update_step of a variable needs that variable's state alone. Train with --shard none, or "
        "with such an optimizer."
    )


def _of_no_variable(optimizer: Any, variable: Any) -> UnsupportedError:
    return refusal(optimizer, f"its variable {variable.path} belongs to no single variable of the model")


def _make(slot: _Slot, optimizer: Any) -> None:
    offload = settings_of(optimizer._distribution_strategy).offload
    with tf.init_scope(), local_variables(), on_host(offload):
        slot.variable._shape = slot.shape
        slot.variable._initialize_with_initializer(slot.initializer)
        if offload is not None:
            offload.keep(slot.variable)
