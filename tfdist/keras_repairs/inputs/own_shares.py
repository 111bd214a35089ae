"""Batches that are the workers' own shares: `auto_shard_dataset=False` of `keras.distribution`.

The global batch of a step is the batches of all workers, one after another in their order, of any sizes. As on JAX the
workers of one row of a `ModelParallel`'s mesh give the same batch, which is theirs together: each takes some of its
rows. A worker whose data ends before those of others takes part without a sample until all have ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

from tfdist.errors import DataError, UnsupportedError
from tfdist.keras_repairs.base.batch_rows import are_of_samples, cut, rows, with_row_of_zeros
from tfdist.keras_repairs.base.warn_once import say_once
from tfdist.keras_repairs.inputs.data_adapters import with_stand_in
from tfdist.order.epoch_order import bounds
from tfdist.runtime.batches.replica_batches import UNEQUAL_ROWS, ReplicaBatch, per_replica, piece_bounds
from tfdist.runtime.collectives.decisions import all_gather, gather_objects
from tfdist.runtime.workers import worker_count, worker_rank


def are_own_shares(adapter: Any, strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a script says that the data that it gives a worker is that worker's share.

    Arrays are the same on all workers, which compare them as training begins.
    """
    distribution = keras.distribution.distribution()
    is_kept_apart = distribution is not None and not distribution.auto_shard_dataset
    return is_kept_apart and worker_count(strategy) > 1 and not isinstance(adapter, ArrayDataAdapter)


class OwnShares:
    """The data of an iterator of which each worker has a share of its own. All workers make it together.

    Args:
        adapter: Keras's adapter of the data.
        dataset: What it gives.
        strategy: Of several workers.

    Attributes:
        steps: Of an epoch: those of the worker that has most; None where one of them does not know.

    Raises:
        DataError: The workers' batches are of different kinds.
        UnsupportedError: A worker has several devices, or data that is distributed already.
    """

    def __init__(self, adapter: Any, dataset: Any, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._alike = _workers_alike(strategy)
        _check(dataset, strategy)
        kind = repr(self._pieces(dataset).element_spec)
        said = gather_objects({"steps": adapter.num_batches, "kind": kind}, strategy)
        for worker, each in enumerate(said):
            if each["kind"] != said[0]["kind"]:
                raise DataError(
                    "auto_shard_dataset=False: each worker gives its own rows of the global batch, and expects those "
                    f"of others to be of the same kind. Received: {each['kind']} on worker {worker}, "
                    f"{said[0]['kind']} on the chief."
                )
        steps = [each["steps"] for each in said]
        self.steps: int | None = None if None in steps else max(steps)
        whose = "each worker" if self._alike == 1 else f"each {self._alike} workers of one row of the mesh"
        say_once(
            f"auto_shard_dataset=False: the data of {whose} is their own share. A global batch has the batches of all "
            "shares, one after another."
        )

    def of(self, dataset: Any) -> tf.distribute.DistributedDataset:
        """Feeds this worker's replica the batches of a dataset like the one given at first."""
        return per_replica(lambda _: self._pieces(dataset), self._strategy)

    def joined(self, iterator: Any) -> JoinedBatches:
        """The batches of an iterator over what `of` returned, which know of those of the other workers."""
        return JoinedBatches(iterator, self._strategy, self._alike)

    def _pieces(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        return _pieces_of(dataset, worker_rank(self._strategy) % self._alike, self._alike)


class JoinedBatches:
    """Iterates over a worker's own batches, in step with the other workers.

    Args:
        iterator: TensorFlow's.
        strategy: Of several workers.
        alike: How many of them give the same batches.
    """

    def __init__(self, iterator: Any, strategy: tf.distribute.Strategy, alike: int) -> None:
        self._iterator, self._strategy, self._alike = iterator, strategy, alike
        self._last: ReplicaBatch | None = None
        self._has_ended = False

    def __next__(self) -> ReplicaBatch:
        while True:
            own = self._own()
            said = [-1, 0] if own is None else [int(own.batch.total), int(own.checksum)]
            everyone = all_gather(np.array(said, np.int64), self._strategy)
            self._check_alike(everyone)
            held = everyone[:: self._alike, 0]
            if (held < 0).all():
                raise StopIteration
            if (held > 0).any():
                return self._joined(None if own is None else own.batch, np.maximum(held, 0))

    @property
    def element_spec(self) -> ReplicaBatch:
        """That of each batch."""
        spec: _Piece = self._iterator.element_spec
        return spec.batch

    def _own(self) -> _Piece | None:
        if not self._has_ended:
            try:
                own: _Piece = next(self._iterator)
                return own
            except StopIteration:
                self._has_ended = True
        return None

    def _check_alike(self, said: Any) -> None:
        rows_of_mesh = said.reshape(-1, self._alike, 2)
        if (rows_of_mesh != rows_of_mesh[:, :1]).any():
            raise DataError(
                f"auto_shard_dataset=False: each {self._alike} workers of one row of the mesh give the same batch, "
                "which is their part of the global one, as on JAX. Received different batches, with as many rows on "
                f"the workers, in their order (-1 after the end): {said[:, 0].tolist()}. Give the workers of a row "
                "the same data: worker_index() // the size of the model's axis says which; or leave the argument out."
            )

    def _joined(self, own: ReplicaBatch | None, held: Any) -> ReplicaBatch:
        """This worker's piece of the global batch.

        Args:
            own: Of its own share; None after its end.
            held: How many rows each share has.
        """
        batch = own or self._last or _nothing(self.element_spec)
        if int(batch.samples):
            self._last = batch._replace(data=cut(batch.data, 0, 1), samples=tf.constant(0, tf.int64))
        cuts = [bounds(int(count), self._alike, place) for count in held for place in range(self._alike)]
        pieces = [stop - start for start, stop in cuts]
        worker = worker_rank(self._strategy)
        numbers = (pieces[worker], sum(pieces[:worker]), sum(pieces), np.count_nonzero(pieces))
        samples, first, total, counting = (tf.constant(int(number), tf.int64) for number in numbers)
        return batch._replace(samples=samples, first=first, total=total, counting=counting)


def _workers_alike(strategy: tf.distribute.Strategy) -> int:
    """How many workers give the same batches: those of one row of a script's `ModelParallel`'s mesh."""
    distribution = keras.distribution.distribution()
    if not isinstance(distribution, keras.distribution.ModelParallel):
        return 1
    mesh = distribution.device_mesh
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    return worker_count(strategy) // int(sizes[distribution.batch_dim_name])


class _Piece(NamedTuple):
    """A worker's piece of a batch of its own share.

    Attributes:
        batch: The piece; its `total` is of that batch alone.
        checksum: Of some rows of that batch, where other workers have the same; else 0.
    """

    batch: ReplicaBatch
    checksum: tf.Tensor


def _pieces_of(dataset: tf.data.Dataset, place: int, alike: int) -> tf.data.Dataset:
    """A worker's piece of each batch of its share, of which so many workers have one, with a row to stand in."""

    def piece(*batch: Any) -> _Piece:
        whole = batch if len(batch) > 1 else batch[0]
        leaves = tf.nest.flatten(whole)
        leaves = [leaf for leaf, has in zip(leaves, are_of_samples(leaves), strict=True) if has]
        sizes = tf.stack([rows(leaf) for leaf in leaves])
        check = tf.debugging.Assert(tf.reduce_all(sizes == sizes[0]), [UNEQUAL_ROWS, sizes])
        with tf.control_dependencies([] if check is None else [check]):
            total = tf.identity(sizes[0])
        first, end = piece_bounds(total, alike, place)
        data = with_row_of_zeros(cut(whole, *with_stand_in(first, end)))
        checksum = tf.add_n(list(map(_checksum, leaves))) if alike > 1 else tf.constant(0, tf.int64)
        return _Piece(ReplicaBatch(data, end - first, first, total, tf.ones_like(total), ()), checksum)

    return dataset.map(piece).prefetch(2)


def _checksum(leaf: Any) -> tf.Tensor:
    """Of the first row and the last one."""
    if not isinstance(leaf, tf.Tensor):
        return tf.constant(0, tf.int64)
    ends = tf.io.serialize_tensor(tf.concat([leaf[:1], leaf[-1:]], 0))
    return tf.strings.to_hash_bucket_fast(ends, 1 << 40)


def _nothing(spec: ReplicaBatch) -> ReplicaBatch:
    """A batch without samples of a worker that has had none yet."""
    data = tf.nest.map_structure(_zeros, spec.data)
    none = tf.constant(0, tf.int64)
    return ReplicaBatch(data, none, none, none, none, ())


def _zeros(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec):
        raise UnsupportedError(
            "auto_shard_dataset=False: a worker has no batch at all, and expects its data to be dense tensors then. "
            f"Received: {spec}. Give each worker one batch at least."
        )
    shape = [1 if size is None else size for size in spec.shape]
    return tf.zeros(shape, spec.dtype)


def _check(dataset: Any, strategy: tf.distribute.Strategy) -> None:
    workers, replicas = worker_count(strategy), strategy.num_replicas_in_sync
    if not isinstance(dataset, tf.data.Dataset):
        raise UnsupportedError(
            "auto_shard_dataset=False: each worker gives its own rows of the global batch. Expected a tf.data.Dataset "
            "or what Keras makes one of. Received: data that is distributed already, as that of tfdist.data is. Leave "
            "the argument out; tfdist.data reads shares of the workers' own with sharding='none'."
        )
    if workers != replicas:
        raise UnsupportedError(
            "auto_shard_dataset=False: each worker gives its own rows of the global batch to its device. Expected one "
            f"device a worker. Received: {workers} workers with {replicas} devices in all. Start a worker a device: "
            f"tfdist train --nproc {replicas}."
        )
