"""Cuts each global batch of the data given to `fit`, `evaluate` and `predict` into the replicas' pieces.

TensorFlow's own distribution rebatches and shards by rules that depend on the dataset's kind, may leave workers with
unequal numbers of steps, and asks all workers at every step whether data is left. Here each worker iterates the same
global batches and keeps the rows of its replicas, so every step has the samples of one replica's step, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.dataset_description import description_of
from tfdist.runtime.distribute import ReplicaBatch, local_replicas, per_replica

_Policy = tf.data.experimental.AutoShardPolicy


def distribute(dataset: Any, strategy: tf.distribute.Strategy) -> Any:
    """Cuts every global batch of `dataset` into the replicas' pieces; what is distributed already stays as it is."""
    if isinstance(dataset, tf.distribute.DistributedDataset):
        make_replica_batches = description_of(dataset).replica_batches
        return dataset if make_replica_batches is None else make_replica_batches()
    _check_policy(dataset, strategy)
    replicas = strategy.num_replicas_in_sync

    def make(ids: Sequence[int]) -> tf.data.Dataset:
        return _pieces(dataset, ids, replicas)

    return per_replica(make, strategy)


def piece(batch: Any, index: Any, replicas: int) -> Any:
    """The rows of `batch` that belong to replica `index`.

    Args:
        batch: A structure of tensors (dense, ragged or sparse) that share their first dimension.
        index: A replica's id, an int or a scalar int64 tensor.
        replicas: How many replicas there are.
    """
    return _cut(batch, *_bounds(rows(batch), replicas, index))


def replica_batch_of(batch: Any, largest: tf.Tensor, index: Any, replicas: int) -> ReplicaBatch:
    """The `piece` of a global batch with what a step must know of the whole; `largest` as in `ReplicaBatch`."""
    total = rows(batch)
    first, end = _bounds(total, replicas, index)
    # Cut as evenly as can be: of fewer samples than replicas, as many have one.
    return ReplicaBatch(_cut(batch, first, end), first, total, tf.minimum(total, replicas), largest)


def rows(batch: Any) -> tf.Tensor:
    """How many samples `batch` holds: a scalar int64 tensor, the first dimension of its first tensor."""
    leaf = _first(batch)
    if leaf is None:
        return tf.constant(1, tf.int64)
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows()
    if isinstance(leaf, tf.SparseTensor):
        return leaf.dense_shape[0]
    return tf.shape(leaf, out_type=tf.int64)[0]


def static_rows(batch: Any) -> int | None:
    """How many samples `batch` holds, where its shape alone says so, else None."""
    leaf = _first(batch)
    return None if leaf is None else leaf.shape[0]


def _first(batch: Any) -> Any:
    return next((leaf for leaf in tf.nest.flatten(batch) if _has_rows(leaf)), None)


def _pieces(dataset: tf.data.Dataset, ids: Sequence[int], replicas: int) -> tf.data.Dataset:
    def of_all(batch: Any, largest: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.range(ids[0], ids[-1] + 1).map(
            lambda index: replica_batch_of(batch, largest, index, replicas)
        )

    sized = dataset.scan(tf.constant(0, tf.int64), _with_largest)
    if len(ids) == 1:
        return sized.map(lambda batch, largest: replica_batch_of(batch, largest, ids[0], replicas)).prefetch(2)
    cut = sized.flat_map(of_all)
    steps = int(dataset.cardinality())
    if steps != tf.data.UNKNOWN_CARDINALITY:
        elements = steps if steps == tf.data.INFINITE_CARDINALITY else steps * len(ids)
        cut = cut.apply(tf.data.experimental.assert_cardinality(elements))
    return cut.prefetch(2 * len(ids))


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
            "build the pipeline with tfdist.data, where each worker reads its own share alone."
        )
    if policy in (_Policy.FILE, _Policy.HINT):
        warn_once(
            f"auto_shard_policy {policy.name} is ignored: every worker reads the whole tf.data.Dataset and keeps its "
            "rows of each global batch, which is exact. To read each file on one worker only, use tfdist.data."
        )


def _cut(batch: Any, start: tf.Tensor, stop: tf.Tensor) -> Any:
    return tf.nest.map_structure(lambda leaf: _slice(leaf, start, stop) if _has_rows(leaf) else leaf, batch)


def _bounds(samples: tf.Tensor, replicas: int, index: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """`order.batch_split.bounds`, on tensors."""
    index = tf.cast(index, samples.dtype)
    return -(-index * samples // replicas), -(-(index + 1) * samples // replicas)


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor | tf.RaggedTensor | tf.SparseTensor) and leaf.shape.rank != 0


def _slice(leaf: Any, start: tf.Tensor, stop: tf.Tensor) -> Any:
    return _slice_sparse(leaf, start, stop) if isinstance(leaf, tf.SparseTensor) else leaf[start:stop]


def _slice_sparse(leaf: tf.SparseTensor, start: tf.Tensor, stop: tf.Tensor) -> tf.SparseTensor:
    """Rows of a sparse tensor, with the sizes that are known of the other dimensions, by which layers are built."""
    rest = leaf.dense_shape[1:]
    cut = tf.sparse.slice(leaf, tf.concat([[start], tf.zeros_like(rest)], 0), tf.concat([[stop - start], rest], 0))
    if leaf.shape.rank is None:
        return cut
    sizes = [cut.dense_shape[i] if size is None else tf.constant(size, tf.int64) for i, size in enumerate(leaf.shape)]
    return tf.SparseTensor(cut.indices, cut.values, tf.stack([cut.dense_shape[0], *sizes[1:]]))
