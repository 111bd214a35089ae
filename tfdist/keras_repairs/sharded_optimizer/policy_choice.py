"""Chooses the policy of each variable of an optimizer, as the run's settings say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.keras_repairs.sharded_embeddings.table_variable import TableVariable, row_view
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_of_keras, kind_of
from tfdist.keras_repairs.sharded_optimizer.variable_policies import GatheredPolicy, TablePolicy, ZeroPolicy
from tfdist.keras_repairs.sharded_parameters.parameter_shard import ParameterShard
from tfdist.keras_repairs.sharded_parameters.shared_slices import SharedBlock
from tfdist.keras_repairs.sharded_parameters.stored_policy import SharedPolicy, StoredPolicy
from tfdist.keras_repairs.sharding_policies.optimizer_policy import (
    Granularity,
    OptimizerPolicy,
    is_container,
    refusal,
    set_policy,
)
from tfdist.keras_repairs.sharding_policies.shards import shard_of
from tfdist.keras_repairs.sharding_policies.variable_policy import VariablePolicy
from tfdist.runtime.offload.offloading import Offloading, on_host
from tfdist.runtime.strategy_settings import settings_of, shares_of
from tfdist.runtime.workers import local_variables
from tfdist.sharding import cut as cuts
from tfdist.sharding.cut import Cut


def choose_policies(optimizer: Any, variables: Sequence[Any]) -> None:
    """Decides how an optimizer is sharded that is about to make its state for these variables of a model.

    Raises:
        UnsupportedError: It cannot be.
    """
    strategy = optimizer._distribution_strategy
    sharding = settings_of(strategy).shard
    tables = [variable for variable in variables if isinstance(variable, TableVariable)]
    others = [variable for variable in variables if not isinstance(variable, TableVariable)]
    offload = settings_of(strategy).offload
    is_shared = all(map(_is_of_all_workers, others))
    if is_container(optimizer) or not (sharding or tables or offload) or not (is_shared or _has_all(offload, strategy)):
        return
    kind = kind_of(optimizer)
    if offload is not None and tables and (sharding is None or not sharding.cuts("optimizer")):
        raise refusal(optimizer, "--offload optimizer and sharded embeddings expect --shard zero1, zero2 or zero3, too")
    if tables and kind != "elements":
        raise refusal(optimizer, f"it may need the whole table of the embedding {tables[0].owner!r} to update a row")
    workers, worker = shares_of(strategy)
    if offload is not None and sharding is None:
        workers, worker = 1, 0  # Each worker has all there is.
    policy = OptimizerPolicy(optimizer, kind, workers, is_known=is_of_keras(optimizer))
    with tf.init_scope(), local_variables(), on_host(offload):
        for table in tables:
            policy.add(TablePolicy(table, table.cut, table.worker, row_view(table)))
        if sharding is not None or offload is not None:
            cut_ones = [variable for variable in others if _is_cut(variable, kind, strategy)]
            shapes = [tuple(variable.shape) for variable in cut_ones]
            for variable, cut in zip(cut_ones, _cuts(kind, shapes, workers), strict=True):
                policy.add(_policy_for(variable, kind, cut, worker))
    set_policy(optimizer, policy)


def _is_cut(variable: Any, kind: Granularity, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether workers have shards of a variable's state, which is no table.

    In a run that shards by layouts alone every worker updates what has none; but not where state is known to be a
    variable's by its place among that of all.
    """
    settings = settings_of(strategy)
    is_by_mode = settings.shard is not None and settings.shard.cuts("optimizer")
    return is_by_mode or settings.offload is not None or kind == "variables" or shard_of(variable) is not None


def _has_all(offload: Offloading | None, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a run of one replica offloads, whose variables are no strategy's."""
    return offload is not None and strategy.num_replicas_in_sync == 1


def _cuts(kind: Granularity, shapes: Sequence[tuple[int, ...]], workers: int) -> list[Cut]:
    if kind == "elements" and workers > 1:
        return [cuts.evenly(shape, workers) for shape in shapes]
    sizes = [tf.TensorShape(shape).num_elements() for shape in shapes]
    return [cuts.uncut(shape, owner, workers) for shape, owner in zip(shapes, cuts.owners(sizes, workers), strict=True)]


def _is_of_all_workers(variable: Any) -> bool:
    """Returns whether a variable is one that the strategy keeps the same on all workers."""
    if shard_of(variable) is not None:
        return True
    return isinstance(getattr(variable, "value", variable), tf.distribute.DistributedValues)


def _policy_for(variable: Any, kind: Granularity, cut: Cut, worker: int) -> VariablePolicy:
    """That of a variable which is no table."""
    shard = shard_of(variable)
    if isinstance(shard, ParameterShard) and kind == "elements":
        if isinstance(shard, SharedBlock):
            return SharedPolicy(variable, _for_a_while(variable, shard.part.cut.slice_shape(shard.part.share)), shard)
        return StoredPolicy(variable, _updated(variable, tuple(shard.stored.shape), shard.stored), shard)
    updated = _for_a_while(variable, cut.shard_shape(worker))
    if isinstance(shard, ParameterShard):
        return GatheredPolicy(variable, cut, worker, updated, shard)
    return ZeroPolicy(variable, cut, worker, updated)


def _for_a_while(variable: Any, shape: tuple[int, ...]) -> keras.Variable:
    """Returns what an optimizer updates for a variable, which has no memory between steps."""
    dtype = (variable._value if isinstance(variable, keras.Variable) else variable).dtype
    value = tf.Variable(tf.zeros([0] * len(shape), dtype), trainable=True, shape=[None] * len(shape))
    return _updated(variable, shape, value)


def _updated(variable: Any, shape: tuple[int, ...], value: tf.Variable) -> keras.Variable:
    """Returns what an optimizer updates for a variable, of its name."""
    name = variable.name.split("/")[-1]
    made = keras.Variable("zeros", shape=(0,) * len(shape), dtype=value.dtype.name, trainable=True, name=name)
    made._path, made._shape, made._value = getattr(variable, "path", variable.name), shape, value
    return made
