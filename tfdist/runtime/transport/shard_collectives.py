"""Reduce-scatter and all-gather of tensors that are cut over the workers, inside of a replica's step.

Where the workers share memory, a worker reads of a sum its own shard alone. Over TensorFlow's collectives a
reduce-scatter is an all-to-all whose pieces are added here; where it is NCCL's, or the workers of several hosts share
what is cut and each host sums in memory first, full sums are taken and cut. One replica a worker.

Where groups of workers have a copy each (`--shard-over`, a mesh), shards are summed in the group first, and then
between the workers that have the same shard: of what crosses a network a worker sends its shard alone. What takes a
group takes that of the run where it is given None.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from tfdist.runtime.collectives.wire.engine import Channel
from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.strategy_settings import StrategySettings, settings_of
from tfdist.runtime.tensor_buckets import buckets_last_first
from tfdist.runtime.transport import shard_groups
from tfdist.runtime.transport.compiled_sums import CompiledSums
from tfdist.runtime.transport.replica_sums import compression, sum_over_replicas
from tfdist.runtime.transport.ring_all_reduce import Ring
from tfdist.runtime.transport.worker_lane import channel_of
from tfdist.sharding.cut import Cut
from tfdist.sharding.mesh import ShardGroup

Exchange = Callable[[list[tf.Tensor], list[Cut]], list[tf.Tensor]]


@dataclass(frozen=True)
class SumOver:
    """Sums small tensors over a group; equal to others of that group."""

    group: ShardGroup

    def __call__(self, tensor: tf.Tensor) -> tf.Tensor:
        return sum_small(tensor, self.group)


def reduce_scatter_gradients(
    gradients: Sequence[tf.Tensor], cuts: Sequence[Cut], group: ShardGroup | None = None
) -> list[tf.Tensor]:
    """This worker's shard of the sum of each gradient over all replicas, flat; timed by the worker's meter.

    Args:
        gradients: Dense, of the shapes of the cuts.
        cuts: How each is cut.
        group: Who shares them; None for those of the run, who may take full sums, as the mode of `--shard` says.
    """
    settings = settings_of(tf.distribute.get_strategy())
    in_full = group is None and not (settings.shard is not None and settings.shard.cuts("gradients"))
    group = group or shard_groups.group_of(settings)
    sum_in_group = None if in_full else _sum_in_group(settings, group)
    sum_them = functools.partial(
        _reduce_scatter, cuts=cuts, settings=settings, group=group, sum_in_group=sum_in_group
    )
    meter = settings.meter_of_sums
    return sum_them(gradients) if meter is None or not gradients else list(meter.timed(gradients, sum_them))


def reduce_scatter_in_group(tensor: tf.Tensor, cut: Cut, group: ShardGroup) -> tf.Tensor:
    """This worker's shard of the sum of a flat tensor over the workers of a group alone. Call it in a function."""
    settings = settings_of(tf.distribute.get_strategy())
    sum_in_group = _sum_in_group(settings, group)
    if sum_in_group is not None:
        (own,) = sum_in_group([tensor], [cut])
        return own
    (total,) = shard_groups.sum_between_groups([tensor], settings, replace(group, alike=group.workers))
    return cut_shard(total, cut, group.share)


def all_gather(
    shards: Sequence[tf.Tensor], cuts: Sequence[Cut], group: ShardGroup | None = None
) -> list[tf.Tensor]:
    """The tensors, of the shapes of their cuts, of which each worker gives its shard, of any shape.

    Call it in a function.
    """
    settings = settings_of(tf.distribute.get_strategy())

    if all(cut.workers == 1 for cut in cuts):
        return [tf.reshape(shard, cut.shape) for shard, cut in zip(shards, cuts, strict=True)]

    group = group or shard_groups.group_of(settings)
    memory = shard_groups.memory_of_group(settings, group)

    def joint(flat: list[tf.Tensor], cuts: list[Cut]) -> list[tf.Tensor]:
        if memory is not None:
            gathered = memory.all_gather(flat, [cut.bounds for cut in cuts])
            # A variable would keep what it is assigned: memory beside TensorFlow's own, which does not give back what
            # the variable had, so that the process would hold every variable twice.
            return [tf.raw_ops.DeepCopy(x=full) for full in gathered]
        return _all_gather_rows(flat, cuts, settings, group)

    gathered = _in_buckets([_flat(shard) for shard in shards], cuts, joint)
    return [tf.reshape(full, cut.shape) for full, cut in zip(gathered, cuts, strict=True)]


def all_gather_one(shard: tf.Tensor, cut: Cut, group: ShardGroup | None = None) -> tf.Tensor:
    """The tensor, of the shape of its cut, of which each worker gives its shard: to be read, and not to be stored.

    Call it in a function.
    """
    settings = settings_of(tf.distribute.get_strategy())
    group = group or shard_groups.group_of(settings)
    flat = _flat(shard)
    memory = shard_groups.memory_of_group(settings, group)
    if memory is not None:
        (full,) = memory.all_gather([flat], [cut.bounds])
    else:
        (full,) = _all_gather_rows([flat], [cut], settings, group)
    return tf.reshape(full, cut.shape)


def sum_small(tensor: tf.Tensor, group: ShardGroup | None = None) -> tf.Tensor:
    """The sum of a small tensor over the workers that share what is cut; also in a branch that all of them take."""
    strategy = tf.distribute.get_strategy()
    settings = settings_of(strategy)
    if strategy.num_replicas_in_sync == 1:
        return tensor
    group = group or shard_groups.group_of(settings)
    if len(group.alike) > 1:
        memory, flat = shard_groups.memory_of_group(settings, group), _flat(tensor)
        if memory is not None:
            (total,) = memory.reduce([flat])
        else:
            total = TensorFlowEngine().all_reduce(flat, "sum", _channel("shard sum", flat, group))
        return tf.reshape(total, tensor.shape)
    if settings.sums is not None and settings.sums.takes(tensor):
        (total,) = settings.sums.sum([tensor])
        return total
    # TensorFlow's own path for NCCL leaves the replica, which it cannot in a branch.
    flat = _flat(tensor)
    return tf.reshape(TensorFlowEngine().all_reduce(flat, "sum", _channel("shard sum", flat, group)), tensor.shape)


def sum_over_workers(tensor: tf.Tensor) -> tf.Tensor:
    """The sum of a small tensor over all workers, whoever shares what; see `sum_small`."""
    return sum_small(tensor, shard_groups.all_workers(tf.distribute.get_strategy()))


def cut_shard(tensor: tf.Tensor, cut: Cut, worker: int) -> tf.Tensor:
    """A worker's shard of a full tensor, in the shape of its shard."""
    start, stop = cut.span(worker)
    if stop - start == cut.size:
        return tf.reshape(tensor, cut.shard_shape(worker))
    if cut.keeps_rank and cut.shape:
        row = max(1, cut.row_size)
        return tensor[start // row : stop // row]
    return _flat(tensor)[start:stop]


def rows_of_shard(slices: tf.IndexedSlices, cut: Cut, worker: int) -> tf.IndexedSlices:
    """Those of the slices of a full variable that are in a worker's shard of it, in their order.

    Where a shard has no rows they become slices of single elements, which optimizers that update element by element
    treat alike.
    """
    start, stop = cut.span(worker)
    indices, values = slices.indices, slices.values
    row = cut.row_size
    if not cut.keeps_rank:
        elements = tf.cast(indices, tf.int64)[:, tf.newaxis] * row + tf.range(row, dtype=tf.int64)
        indices, values = tf.reshape(elements, [-1]), tf.reshape(values, [-1])
        row = 1
    first, last = start // max(1, row), stop // max(1, row)
    is_mine = tf.logical_and(indices >= first, indices < last)
    shape = cut.shard_shape(worker)
    rows = tf.boolean_mask(values, is_mine)
    return tf.IndexedSlices(rows, tf.boolean_mask(indices, is_mine) - first, tf.constant(shape, tf.int64))


def cut_shard_copy(tensor: tf.Tensor, cut: Cut, worker: int) -> tf.Tensor:
    """As `cut_shard`, to be stored: rows of a tensor share its memory, which would be held as long as they are."""
    return tf.raw_ops.DeepCopy(x=cut_shard(tensor, cut, worker))


def _reduce_scatter(
    gradients: Sequence[tf.Tensor],
    cuts: Sequence[Cut],
    settings: StrategySettings,
    group: ShardGroup,
    sum_in_group: Exchange | None,
) -> list[tf.Tensor]:
    if sum_in_group is None:
        totals = sum_over_replicas(gradients, sent_as=compression())
        return [_flat(cut_shard(total, cut, group.share)) for total, cut in zip(totals, cuts, strict=True)]

    def summed(flat: list[tf.Tensor], cuts: list[Cut]) -> list[tf.Tensor]:
        return shard_groups.sum_between_groups(sum_in_group(flat, cuts), settings, group)

    # A gradient may not know its shape, such as one of a loop or of a branch.
    flat = [tf.reshape(gradient, [cut.size]) for gradient, cut in zip(gradients, cuts, strict=True)]
    return _in_buckets(flat, cuts, summed)


def _sum_in_group(settings: StrategySettings, group: ShardGroup) -> Exchange | None:
    """Returns how the workers that share what is cut reduce-scatter it; None where full sums of all workers are cut."""
    memory = shard_groups.memory_of_group(settings, group)
    if memory is not None:
        return lambda flat, cuts: memory.reduce_scatter(flat, [cut.bounds for cut in cuts])
    is_by_rows = isinstance(settings.sums, Ring) and compression() is None
    return functools.partial(_reduce_scatter_rows, group=group) if is_by_rows else None


def _in_buckets(tensors: Sequence[tf.Tensor], cuts: Sequence[Cut], exchange: Exchange) -> list[tf.Tensor]:
    results = list(tensors)
    # By the sizes of the full tensors, which are the same on all workers.
    for bucket in buckets_last_first([_Sized(tensor.dtype, cut) for tensor, cut in zip(tensors, cuts, strict=True)]):
        exchanged = exchange([tensors[i] for i in bucket], [cuts[i] for i in bucket])
        for i, result in zip(bucket, exchanged, strict=True):
            results[i] = result
    return results


class _Sized:
    """A stand-in for a full tensor that no worker has, with what `buckets_last_first` asks of a tensor."""

    def __init__(self, dtype: tf.DType, cut: Cut) -> None:
        self.dtype = dtype
        self.shape = tf.TensorShape(cut.shape)


def _reduce_scatter_rows(flat: list[tf.Tensor], cuts: list[Cut], group: ShardGroup) -> list[tf.Tensor]:
    """Sums by TensorFlow's collectives: a row for each worker, of its shards one after another, all as long."""
    share, workers = group.share, cuts[0].workers
    pieces = [
        _padded(tensor[slice(*cut.span(place))], cut)
        for place in range(workers)
        for tensor, cut in zip(flat, cuts, strict=True)
    ]
    table = tf.concat(pieces, 0)
    mine = TensorFlowEngine().reduce_scatter(table, "sum", _channel("shard scatter", table, group))
    pieces = tf.split(mine, [cut.largest_shard for cut in cuts])
    return [piece[: cut.shard_size(share)] for piece, cut in zip(pieces, cuts, strict=True)]


def _all_gather_rows(
    shards: list[tf.Tensor], cuts: list[Cut], settings: StrategySettings, group: ShardGroup
) -> list[tf.Tensor]:
    row = tf.concat([_padded(shard, cut) for shard, cut in zip(shards, cuts, strict=True)], 0)
    table = tf.reshape(_gathered(row, settings, group), [cuts[0].workers, row.shape[0]])
    begins = itertools.accumulate((cut.largest_shard for cut in cuts), initial=0)
    return [
        tf.concat([table[place, begin : begin + cut.shard_size(place)] for place in range(cut.workers)], 0)
        for begin, cut in zip(begins, cuts, strict=False)
    ]


def _gathered(row: tf.Tensor, settings: StrategySettings, group: ShardGroup) -> tf.Tensor:
    """The rows of the workers that share what is cut, one after another."""
    if isinstance(settings.sums, CompiledSums):
        return settings.sums.gather(row)
    # TensorFlow gathers no bfloat16, and copies other 16 bits as they are.
    sent = tf.bitcast(row, tf.float16) if row.dtype == tf.bfloat16 else row
    engine = settings.between_devices or TensorFlowEngine()
    return tf.bitcast(engine.all_gather(sent, _channel("shard join", sent, group)), row.dtype)


def _padded(shard: tf.Tensor, cut: Cut) -> tf.Tensor:
    """A flat shard with zeros behind it, as long as the largest."""
    missing = cut.largest_shard - int(shard.shape[0])
    return tf.pad(shard, [[0, missing]]) if missing else shard


def _channel(carried: str, flat: tf.Tensor, group: ShardGroup) -> Channel:
    return channel_of(carried, flat.dtype, int(flat.shape[0]), group.workers)


def _flat(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tensor, [-1])
