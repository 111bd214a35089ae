"""Policies of variables beside which state is cut: those of ZeRO-1 and 2, of ZeRO-3, and of tables of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.replica_copies import own_copy
from tfdist.keras_repairs.sharded_embeddings.slice_exchange import own_slices, slices_for_owner
from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_linear
from tfdist.keras_repairs.sharded_parameters.parameter_shard import ParameterShard
from tfdist.keras_repairs.sharded_parameters.summed_gradients import is_full
from tfdist.keras_repairs.sharding_policies.shards import FlatShard, Shard
from tfdist.keras_repairs.sharding_policies.variable_policy import Exchange, Gradient, VariablePolicy
from tfdist.runtime.transport import shard_collectives
from tfdist.sharding import cut as cuts
from tfdist.sharding.cut import Cut


@dataclass(frozen=True, eq=False)
class _CutPolicy(VariablePolicy):
    """A variable of which each worker updates a range of the elements.

    Attributes:
        variable: The model's.
        cut: How the workers share the update.
        worker: This one's place among them.
        updated: Has the shard while a step updates it, under the name of the model's variable.
    """

    variable: Any
    cut: Cut
    worker: int
    updated: keras.Variable

    @property
    def is_held(self) -> bool:
        return self.cut.shard_size(self.worker) > 0

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        return shard_collectives.sum_small if self.cut.workers > 1 else None

    def slot(self, variable: Any, shape: tuple[int, ...] | None = None) -> Shard:
        """See `VariablePolicy`; state of another shape is with the worker that has the variable."""
        if shape is None:
            return FlatShard(variable, self.cut, self.worker)
        owner = next(worker for worker in range(self.cut.workers) if self.cut.shard_size(worker))
        return FlatShard(variable, cuts.uncut(shape, owner, self.cut.workers), self.worker)

    def of_sum(self, total: Any) -> Gradient:
        if isinstance(total, tf.IndexedSlices):
            return shard_collectives.rows_of_shard(total, self.cut, self.worker)
        return shard_collectives.cut_shard(total, self.cut, self.worker)


class ZeroPolicy(_CutPolicy):
    """A variable that every worker has in full and updates in part: ZeRO-1 and 2, and offloading."""

    constrains_full = True

    @property
    def gathering(self) -> Exchange:
        return _gathered

    @property
    def handing_over(self) -> Callable[[Sequence[Any]], None] | None:
        return _hand_over

    def reduction(self, gradient: Any, optimizer: Any) -> Exchange | None:
        is_scattered = self.cut.workers > 1 and isinstance(gradient, tf.Tensor)
        return _scattered if is_scattered else None

    def take_over(self) -> None:
        value = shard_collectives.cut_shard(self.full_value(), self.cut, self.worker)
        self.updated._value.assign(value, read_value=False)

    def release(self) -> None:
        variable = self.updated._value
        variable.assign(tf.zeros([0] * variable.shape.rank, variable.dtype), read_value=False)

    def constrain(self, is_applied: tf.Tensor) -> None:
        value, copy = self.stored_of(keras.ops.convert_to_tensor(self.variable.constraint(self.variable))), self.stored
        copy.assign(tf.where(is_applied, tf.cast(value, copy.dtype), copy), read_value=False)

    def own_value(self) -> tf.Tensor:
        return shard_collectives.cut_shard(tf.convert_to_tensor(self.variable), self.cut, self.worker)

    def assign_slot(self, slot: Any) -> None:
        self.variable.assign(self.slot(slot).full())

    @property
    def stored(self) -> Any:
        """The `tf.Variable` in which this worker has the model's variable."""
        return own_copy(self.variable)

    def stored_of(self, full: tf.Tensor) -> tf.Tensor:
        """Returns what this worker stores of a full value."""
        return full

    def full_value(self) -> tf.Tensor:
        """The full value; all workers call it."""
        return tf.convert_to_tensor(self.stored)


@dataclass(frozen=True, eq=False)
class GatheredPolicy(ZeroPolicy):
    """A variable of which each worker stores a shard, for an optimizer that needs all of it on one worker: ZeRO-3."""

    stored_shard: ParameterShard

    def reduction(self, gradient: Any, optimizer: Any) -> Exchange | None:
        """See `StoredPolicy`."""
        return None if is_full(gradient) else _full_sums

    @property
    def stored(self) -> Any:
        return self.stored_shard.stored

    def stored_of(self, full: tf.Tensor) -> tf.Tensor:
        return self.stored_shard.stored_of(full)

    def full_value(self) -> tf.Tensor:
        return self.stored_shard.join(self.stored.read_value())


class TablePolicy(_CutPolicy):
    """A table of which each worker stores and updates some rows; nobody reads all of them."""

    variable: TableVariable

    @property
    def gathering(self) -> Exchange:
        return _norms

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return shard_collectives.sum_over_workers

    def reduction(self, gradient: Any, optimizer: Any) -> Exchange | None:
        if not isinstance(gradient, tf.IndexedSlices):
            return None
        linear = is_linear(optimizer)
        return lambda policies, gradients: [slices_for_owner(gradient, self.variable, is_linear=linear)]

    def of_sum(self, total: Any) -> Gradient:
        return own_slices(total, self.variable) if isinstance(total, tf.IndexedSlices) else super().of_sum(total)

    def own_value(self) -> tf.Tensor:
        return tf.identity(self.updated.value)

    def assign_slot(self, slot: Any) -> None:
        self.updated.assign(slot)


def _scattered(policies: Sequence[ZeroPolicy], gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    flat = shard_collectives.reduce_scatter_gradients(gradients, [policy.cut for policy in policies])
    return [tf.reshape(sum_, each.cut.shard_shape(each.worker)) for sum_, each in zip(flat, policies, strict=True)]


def _full_sums(policies: Sequence[GatheredPolicy], gradients: Sequence[Any]) -> list[Gradient]:
    pairs = zip(policies, gradients, strict=True)
    return [policy.of_sum(policy.stored_shard.full_sum(gradient)) for policy, gradient in pairs]


def _gathered(policies: Sequence[ZeroPolicy], gradients: Sequence[Any]) -> list[tf.Tensor]:
    """Dense ones in full; of sparse ones the norms."""
    is_dense = [isinstance(gradient, tf.Tensor) for gradient in gradients]
    dense = [place for place, dense in enumerate(is_dense) if dense]
    sparse = [place for place, dense in enumerate(is_dense) if not dense]
    norms = iter(_norms([policies[i] for i in sparse], [gradients[i] for i in sparse]))
    full = iter(shard_collectives.all_gather([gradients[i] for i in dense], [policies[i].cut for i in dense]))
    return [next(full if dense else norms) for dense in is_dense]


def _norms(policies: Sequence[Any], gradients: Sequence[Any]) -> list[tf.Tensor]:
    found = []
    for policy, gradient in zip(policies, gradients, strict=True):
        square = tf.reduce_sum(tf.square(tf.convert_to_tensor(gradient)))
        found.append(tf.sqrt(square if policy.sum_over_shards is None else policy.sum_over_shards(square)))
    return found


def _hand_over(policies: Sequence[ZeroPolicy]) -> None:
    shards = [
        tf.ensure_shape(tf.reshape(each.updated._value.read_value(), [-1]), [each.cut.shard_size(each.worker)])
        for each in policies
    ]
    all_full = shard_collectives.all_gather(shards, [each.cut for each in policies])
    for policy, full in zip(policies, all_full, strict=True):
        policy.stored.assign(policy.stored_of(full), read_value=False)
