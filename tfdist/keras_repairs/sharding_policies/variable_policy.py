"""The workers' shared training of one variable: its gradient, its update, its norm, its slots and its average.

An optimizer's step asks the policies of its variables, and knows no more of them than is here. What all workers do
together, a policy names as a function of many variables: those that name the same one go in as few messages as it
takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfdist.keras_repairs.sharding_policies.shards import Shard

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None
Exchange = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
"""A joint operation of all workers on gradients: takes policies and gradients of some variables, one for each."""


class VariablePolicy(ABC):
    """The way in which one variable is trained.

    Attributes:
        variable: The model's.
        updated: What an optimizer updates for it: a Keras variable with this worker's shard, or the model's own.
        constrains_full: Whether a constraint is applied to the model's variable after an update, by `constrain`;
            otherwise Keras applies it to what it updates.
    """

    variable: Any
    updated: Any
    constrains_full = False

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """True if this worker has any of it to update."""

    @abstractmethod
    def slot(self, variable: Any, shape: tuple[int, ...] | None = None) -> Shard | None:
        """Returns what this worker stores of a variable of the optimizer's state beside it; None where that is full.

        Args:
            variable: The Keras variable, which has the shard or is going to.
            shape: Of its full value; None where it is that of the model's variable.
        """

    def reduction(self, gradient: Any, optimizer: Any) -> Exchange | None:
        """Returns how this worker's gradients become its shards of their sums over the workers.

        None where they are summed as those of variables that are not sharded; `of_sum` has the shard.
        """
        return None

    @abstractmethod
    def of_sum(self, total: Any) -> Gradient:
        """This worker's shard of a sum that all workers have in full."""

    @property
    def gathering(self) -> Exchange | None:
        """The exchange that makes full gradients of their shards, for who wants to look; None where they are full.

        For one that nobody is to put together stands a number of the same norm.
        """
        return None

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """Adds up what is computed of each worker's shard, such as a square for a norm; None where that is all."""
        return None

    @property
    def handing_over(self) -> Callable[[Sequence[Any]], None] | None:
        """Has the model's variables take over what each worker has updated; None where that is what the model has."""
        return None

    def take_over(self) -> None:
        """Has what is updated take over what the model has, before a step."""
        return

    def release(self) -> None:
        """Gives up the memory of what is updated, which a step of the model does not need."""
        return

    def constrain(self, is_applied: tf.Tensor) -> None:
        """Applies a constraint to the model's variable where gradients were applied."""
        return

    @abstractmethod
    def own_value(self) -> tf.Tensor:
        """Returns what this worker has of the variable, in the shape of a slot; outside of functions."""

    @abstractmethod
    def assign_slot(self, slot: Any) -> None:
        """Gives the model's variable the value of a slot. All workers call it together, outside of functions."""


class Replicated(VariablePolicy):
    """Nothing of the variable is sharded: every worker updates all of it.

    Args:
        variable: The model's.
    """

    def __init__(self, variable: Any) -> None:
        self.variable = self.updated = variable

    @property
    def is_held(self) -> bool:
        return True

    def slot(self, variable: Any, shape: tuple[int, ...] | None = None) -> None:
        return None

    def of_sum(self, total: Any) -> Gradient:
        return total

    def own_value(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.variable)

    def assign_slot(self, slot: Any) -> None:
        self.variable.assign(slot.numpy())
