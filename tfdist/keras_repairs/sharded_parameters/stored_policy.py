"""The policy of a weight of which each worker stores a shard, and updates that, however the weight is cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.sharded_parameters.parameter_shard import ParameterShard
from tfdist.keras_repairs.sharded_parameters.shared_slices import SharedBlock
from tfdist.keras_repairs.sharded_parameters.summed_gradients import is_full
from tfdist.keras_repairs.sharding_policies.shards import Shard
from tfdist.keras_repairs.sharding_policies.variable_policy import Exchange, Gradient, VariablePolicy
from tfdist.runtime.transport import shard_collectives
from tfdist.sharding.mesh import ShardGroup


@dataclass(frozen=True, eq=False)
class StoredPolicy(VariablePolicy):
    """For an optimizer that updates element by element.

    Attributes:
        variable: The model's.
        updated: Has what stores the shard for its value, under the name of the model's variable.
        shard: What this worker stores.
    """

    variable: Any
    updated: keras.Variable
    shard: ParameterShard
    constrains_full = True

    @property
    def is_held(self) -> bool:
        return self.shard.size > 0

    @property
    def gathering(self) -> Exchange:
        return _gathered

    @property
    def sum_over_shards(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return self.shard.sum_over_shards

    def slot(self, variable: Any, shape: tuple[int, ...] | None = None) -> Shard:
        return self.shard.like(variable)

    def reduction(self, gradient: Any, optimizer: Any) -> Exchange | None:
        """Tapes return shards of sums; of variables that code in `tfdist.gathered` takes gradients by, full ones."""
        return None if is_full(gradient) else _summed_by_tapes

    def of_sum(self, total: Any) -> Gradient:
        return self.shard.of_sum(total)

    def constrain(self, is_applied: tf.Tensor) -> None:
        full, stored = keras.ops.convert_to_tensor(self.variable.constraint(self.variable)), self.shard.stored
        value = tf.cast(self.shard.of(full), stored.dtype)
        stored.assign(tf.where(is_applied, value, stored), read_value=False)

    def own_value(self) -> tf.Tensor:
        return tf.identity(self.shard.stored)

    def assign_slot(self, slot: Any) -> None:
        self.shard.stored.assign(self.slot(slot).stored.numpy())


class SharedPolicy(StoredPolicy):
    """For a weight whose block other workers store, too: each updates a part of it, and hands that over to the others.

    `updated` has the part while a step updates it.
    """

    shard: SharedBlock

    @property
    def is_held(self) -> bool:
        return self.shard.part.size > 0

    @property
    def handing_over(self) -> Callable[[Sequence[Any]], None]:
        return _hand_over

    def take_over(self) -> None:
        self.updated._value.assign(self.shard.own_part(self.shard.stored.read_value()), read_value=False)

    def release(self) -> None:
        variable = self.updated._value
        variable.assign(tf.zeros([0] * variable.shape.rank, variable.dtype), read_value=False)

    def own_value(self) -> tf.Tensor:
        return tf.identity(self.shard.own_part(self.shard.stored.read_value()))

    def assign_slot(self, slot: Any) -> None:
        self.variable.assign(self.slot(slot).full())


def _hand_over(policies: Sequence[SharedPolicy]) -> None:
    by_group: dict[ShardGroup, list[SharedPolicy]] = defaultdict(list)
    for policy in policies:
        by_group[policy.shard.among].append(policy)
    for group, some in by_group.items():
        parts = [policy.shard.flat_part(policy.updated._value.read_value()) for policy in some]
        cuts = [policy.shard.parts.flat for policy in some]
        parts = [tf.ensure_shape(part, [cut.shard_size(group.share)]) for part, cut in zip(parts, cuts, strict=True)]
        for policy, flat in zip(some, shard_collectives.all_gather(parts, cuts, group), strict=True):
            policy.shard.stored.assign(policy.shard.block_of(flat), read_value=False)


def _summed_by_tapes(policies: Sequence[StoredPolicy], gradients: Sequence[Any]) -> Sequence[Any]:
    return gradients


def _gathered(policies: Sequence[StoredPolicy], gradients: Sequence[Any]) -> list[tf.Tensor]:
    """Dense ones in full; of sparse ones the norms."""
    return [
        policy.shard.full_sum(gradient) if isinstance(gradient, tf.Tensor) else _norm(policy, gradient)
        for policy, gradient in zip(policies, gradients, strict=True)
    ]


def _norm(policy: StoredPolicy, gradient: tf.IndexedSlices) -> tf.Tensor:
    return tf.sqrt(policy.sum_over_shards(tf.reduce_sum(tf.square(tf.convert_to_tensor(gradient)))))
