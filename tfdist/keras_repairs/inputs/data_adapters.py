"""Cuts each global batch of the data given to `fit`, `evaluate` and `predict` into the replicas' pieces.

TensorFlow's own distribution rebatches and shards by rules that depend on the dataset's kind, may leave workers with
unequal numbers of steps, and asks all workers at every step whether data is left. Here each worker iterates the same
global batches and keeps the rows of its replicas, so every step has the samples of one replica's step, in its order.
Where batches cost something to make, one worker of each host draws them for all of it (`host_drawing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import are_of_samples, cut, rows, share_rows, static_rows
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.batches.distribute import UNEQUAL_ROWS, ReplicaBatch, per_replica, piece_bounds, remainder_of
from tfdist.runtime.batches.host_feed.fed_batches import FedBatches
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas

_Policy = tf.data.experimental.AutoShardPolicy


def distribute(dataset: Any, strategy: tf.distribute.Strategy, smallest: int = 0, *, once: bool = False) -> Any:
    """Cuts every global batch of `dataset` into the replicas' pieces; what is distributed already stays as it is.

    Args:
        dataset: A `tf.data.Dataset` of global batches, or a distributed dataset.
        strategy: A strategy of several replicas.
        smallest: No batch has fewer samples.
        once: Whether one worker of each host draws the batches for all of its workers. The result then describes the
            pieces, as it would be without; those that are drawn once come from its description's `fed`.
    """
    if isinstance(dataset, tf.distribute.DistributedDataset):
        make_replica_batches = description_of(dataset).replica_batches
        return dataset if make_replica_batches is None else make_replica_batches()
    _check_policy(dataset, strategy)
    replicas = strategy.num_replicas_in_sync

    specs = []
    shows_remainder = settings_of(strategy).nccl is not None

    def make(ids: Sequence[int]) -> tf.data.Dataset:
        pieces = _pieces(dataset, smallest, ids, replicas, shows_remainder=shows_remainder)
        specs.append(pieces.element_spec)
        return pieces

    distributed = per_replica(make, strategy)
    feed = settings_of(strategy).feed
    if once and feed is not None and specs and isinstance(specs[0].whole, tuple):
        description_of(distributed).fed = FedBatches(feed, dataset, specs[0], strategy)
    return distributed


def smallest_batch(adapter: Any) -> int:
    """The samples that each batch of one of Keras's data adapters has at least, where that is known of arrays; else 0.

    The shapes of a `tf.data.Dataset`'s batches say it themselves.
    """
    return (adapter.partial_batch_size or adapter.batch_size) if isinstance(adapter, ArrayDataAdapter) else 0


def replica_batch_of(
    batch: Any, largest: tf.Tensor, index: Any, replicas: int, *, smallest: int = 0, shows_remainder: bool = False
) -> ReplicaBatch:
    """The piece of a global batch that belongs to replica `index`, and what a step must know of the whole.

    Args:
        batch: A structure of tensors (dense, ragged or sparse) that share their first dimension.
        largest: As in `ReplicaBatch`.
        index: A replica's id, an int or a scalar int64 tensor.
        replicas: How many replicas there are.
        smallest: No batch of the data has fewer samples.
        shows_remainder: Whether the piece has a remainder.
    """
    total = rows(batch)
    first, end = piece_bounds(total, replicas, index)
    known = static_rows(batch)
    remainder = remainder_of(total if known is None else known, replicas) if shows_remainder else ()
    if not share_rows(batch):
        return ReplicaBatch(
            batch, end - first, first, total, tf.minimum(total, replicas), largest, remainder, tf.constant(True)
        )
    batch = _with_as_many_rows(batch, total)
    if max(smallest, known or 0) >= replicas:
        return ReplicaBatch(cut(batch, first, end), end - first, first, total, (), largest, remainder)
    data = cut(batch, *_with_stand_in(first, end))
    # Cut as evenly as can be: of fewer samples than replicas, as many have one.
    return ReplicaBatch(data, end - first, first, total, tf.minimum(total, replicas), largest, remainder)


def _with_as_many_rows(batch: Any, total: tf.Tensor) -> Any:
    """`batch`, once it is seen that all its tensors of samples have `total` rows. Where shapes say it, nothing is."""
    leaves = tf.nest.flatten(batch)
    are_open = [has and leaf.shape[0] is None for leaf, has in zip(leaves, are_of_samples(leaves), strict=True)]
    if sum(are_open) < 2:
        return batch
    open_leaves = [leaf for leaf, is_open in zip(leaves, are_open, strict=True) if is_open]
    counts = tf.stack([rows(leaf) for leaf in open_leaves])
    check = tf.debugging.Assert(tf.reduce_all(counts == total), [UNEQUAL_ROWS, counts])
    with tf.control_dependencies([] if check is None else [check]):
        passed = iter([tf.nest.map_structure(tf.identity, leaf, expand_composites=True) for leaf in open_leaves])
    made = [next(passed) if is_open else leaf for leaf, is_open in zip(leaves, are_open, strict=True)]
    return tf.nest.pack_sequence_as(batch, made)


def given(batch: Any) -> Any:
    """A batch with None for absent parts, which a dataset holds as empty optionals."""
    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


def _with_stand_in(first: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The bounds of a replica's rows; without samples, those of the first row of the batch, which counts nowhere."""
    is_empty = first == end
    return tf.where(is_empty, tf.zeros_like(first), first), tf.where(is_empty, tf.ones_like(end), end)


def _pieces(
    dataset: tf.data.Dataset, smallest: int, ids: Sequence[int], replicas: int, *, shows_remainder: bool
) -> tf.data.Dataset:
    def piece(batch: Any, largest: tf.Tensor, index: Any) -> ReplicaBatch:
        return replica_batch_of(batch, largest, index, replicas, smallest=smallest, shows_remainder=shows_remainder)

    def of_only_one(largest: tf.Tensor, *batch: Any) -> tuple[tf.Tensor, ReplicaBatch]:
        largest, (whole, _) = _with_largest(largest, *batch)
        return largest, piece(whole, largest, ids[0])

    def of_all(batch: Any, largest: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.range(ids[0], ids[-1] + 1).map(lambda index: piece(batch, largest, index))

    nothing = tf.constant(0, tf.int64)
    if len(ids) == 1:
        return dataset.scan(nothing, of_only_one).prefetch(2)
    pieces = dataset.scan(nothing, _with_largest).flat_map(of_all)
    steps = int(dataset.cardinality())
    if steps != tf.data.UNKNOWN_CARDINALITY:
        elements = steps if steps == tf.data.INFINITE_CARDINALITY else steps * len(ids)
        pieces = pieces.apply(tf.data.experimental.assert_cardinality(elements))
    return pieces.prefetch(2 * len(ids))


def _with_largest(largest: tf.Tensor, *batch: Any) -> tuple[tf.Tensor, tuple[Any, tf.Tensor]]:
    """Step of a scan: each batch with the samples of the largest one so far."""
    whole = batch if len(batch) > 1 else batch[0]
    largest = tf.maximum(largest, rows(whole))
    return largest, (whole, largest)


def _check_policy(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> None:
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if len(local_replicas(strategy)) == strategy.num_replicas_in_sync:
        return
    if policy == _Policy.OFF:
        raise UnsupportedError(
            "A tf.data.Dataset with auto_shard_policy OFF was given to Keras on several workers: it says that each "
            "worker's data is already its own share, and tfdist would cut it once more. Expected a dataset that is the "
            "same on every worker, of global batches. Give each worker the whole dataset and leave the policy out, or "
            "build the pipeline with tfdist.data, where each worker reads its own share alone. On one machine, "
            "--nproc 1 trains in one process on all of its GPUs."
        )
    if policy in (_Policy.FILE, _Policy.HINT):
        warn_once(
            f"auto_shard_policy {policy.name} is ignored: every host reads the whole tf.data.Dataset, and each worker "
            "takes its rows of each batch, which is exact. To read each file on one worker only, use tfdist.data."
        )
