"""Exchanges of a worker with those that it shares what `--shard` cuts with, and with those that have the same shard."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.strategy_settings import StrategySettings
from tfdist.runtime.transport.replica_sums import compression
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations
from tfdist.runtime.transport.shared_memory.shared_memory_sums import HostSums
from tfdist.runtime.transport.worker_lane import channel_of
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.sharding.mesh import Mesh, ShardGroup

Workers = tuple[int, ...]


def group_of(settings: StrategySettings) -> ShardGroup:
    """The workers that share one copy of what `--shard` cuts with this one; all of them where it cuts nothing."""
    strategy = tf.distribute.get_strategy()
    if settings.shard is None:
        return all_workers(strategy)
    return settings.shard.mesh.shard_group(["shard"], worker_rank(strategy))


def all_workers(strategy: tf.distribute.Strategy) -> ShardGroup:
    """The group of all workers."""
    return Mesh.of(shard=worker_count(strategy)).shard_group(["shard"], worker_rank(strategy))


def memory_among(workers: Workers | None, settings: StrategySettings) -> MemoryOperations | None:
    """Exchanges of some workers, or of all where None is given, in shared memory; None where they share none."""
    strategy = tf.distribute.get_strategy()
    return _memory_of(all_workers(strategy).workers if workers is None else workers, settings)



def memory_of_group(settings: StrategySettings, group: ShardGroup | None = None) -> MemoryOperations | None:
    """Exchanges of a group in shared memory; None where they share none.

    Args:
        settings: Those of the run.
        group: The group; None for that of `group_of`.
    """
    return _memory_of((group or group_of(settings)).workers, settings)


def sum_between_groups(
    shards: Sequence[tf.Tensor], settings: StrategySettings, group: ShardGroup | None = None
) -> list[tf.Tensor]:
    """The sums of shards, flat and of one dtype, over the groups: between the workers that have the same shard.

    Call it in a function, on all workers.

    Args:
        shards: This worker's.
        settings: Those of the run.
        group: Who shares what they are of; None for those of `group_of`.
    """
    workers = (group or group_of(settings)).alike
    if len(workers) == 1:
        return list(shards)
    memory = _memory_of(workers, settings)
    if memory is not None:
        totals = memory.reduce(shards)
        return [tf.ensure_shape(total, shard.shape) for total, shard in zip(totals, shards, strict=True)]
    together = tf.concat(shards, 0)
    if together.shape[0] == 0:
        # A variable may have fewer elements than the group has workers. TensorFlow would abort what has none to send.
        return list(shards)
    sent_as = compression() or together.dtype
    sent = tf.cast(together, sent_as)
    channel = channel_of("sum of shards", sent_as, int(sent.shape[0]), workers)
    total = tf.cast(TensorFlowEngine().all_reduce(sent, "sum", channel), together.dtype)
    return list(tf.split(total, [int(shard.shape[0]) for shard in shards]))


def _memory_of(workers: Workers, settings: StrategySettings) -> MemoryOperations | None:
    """Exchanges of workers in shared memory, in functions; None where they share none, or not by themselves."""
    if settings.memory is None:
        sums = settings.sums
        return sums.operations if isinstance(sums, HostSums) and sums.workers == workers else None
    strategy = tf.distribute.get_strategy()
    if len(workers) == worker_count(strategy):
        return settings.memory.of_functions
    place = workers.index(worker_rank(strategy))
    group = f"shards of workers {', '.join(map(str, workers))}"
    return settings.memory.of_groups.of(group, workers, place, is_pair=False)
