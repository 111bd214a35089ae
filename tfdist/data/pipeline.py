"""From a source to what Keras `fit` takes, with the same global batches for any number of workers and replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.python_calls import CountedCalls, call_python
from tfdist.data.sources import Source
from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.order.epoch import epoch_order, epoch_pieces
from tfdist.order.position import START, Position
from tfdist.runtime.feeding import (
    Epochs,
    Ordered,
    Share,
    after_rest,
    no_autotune_options,
    note_order,
    per_replica,
    with_shares,
)

PREFETCHED_STEPS = 2

Batches = tf.data.Dataset | tf.distribute.DistributedDataset


def build(
    source: Source,
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int | None = None,
    strategy: tf.distribute.Strategy | None = None,
    begin: Position = START,
) -> Batches:
    """Returns the batches of `source`; every iterator over them is the next epoch.

    An epoch has `ceil(samples / batch_size)` steps on every worker and visits every sample once. A global batch is cut
    into near-equal pieces, one a replica; at the end of an epoch, or with more replicas than samples, some are empty.

    Args:
        source: The samples.
        batch_size: Samples of a step over all replicas.
        shuffle: Whether each epoch has an order of its own, which depends on `seed` and the epoch alone.
        seed: By default the run's, or 0 outside of `tfdist train`.
        strategy: By default the current one.
        begin: Where a training goes on. Within an epoch, `fit` first takes the rest of it, whose samples are those that
            the epoch would have had left; nothing of what was before is read.

    Returns:
        For one replica a `tf.data.Dataset` of global batches; for several a `tf.distribute.DistributedDataset`.

    Raises:
        UsageError: `batch_size` or `seed` is impossible.
    """
    batch_size = _integer("batch_size", batch_size, at_least=1)
    seed = _integer("seed", _run_seed() if seed is None else seed, at_least=0)
    strategy = strategy or tf.distribute.get_strategy()
    order = _Order(len(source), seed, shuffle)
    if not begin.step:
        return _batches(source, batch_size, order, strategy, begin)
    later = _batches(source, batch_size, order, strategy, Position(begin.epoch + 1))
    return after_rest(later, begin.step, lambda: _batches(source, batch_size, order, strategy, begin))


@dataclass(frozen=True)
class _Order:
    """The order of a source's samples in each epoch."""

    samples: int
    seed: int
    shuffle: bool

    def of(self, epoch: int) -> NDArray[np.int64]:
        return epoch_order(self.samples, self.seed, epoch, self.shuffle)


def _batches(
    source: Source, batch_size: int, order: _Order, strategy: tf.distribute.Strategy, begin: Position
) -> Batches:
    """The batches from `begin` to the end of its epoch; with every further iterator, those of the next epoch."""
    replicas = strategy.num_replicas_in_sync
    # People may iterate over the one and train on the other.
    epochs, epochs_of_shares = Epochs(begin.epoch), Epochs(begin.epoch)

    def make(replica_ids: Sequence[int], epochs: Epochs = epochs) -> tf.data.Dataset:
        pieces = epoch_pieces(len(source), batch_size, replicas, replica_ids)
        largest = int((pieces[:, 1] - pieces[:, 0]).max())
        left = pieces[begin.step * len(replica_ids) :]
        batches = source.batches(_indices(left, order, epochs), largest)
        counted = batches.apply(tf.data.experimental.assert_cardinality(len(left)))
        return counted.prefetch(PREFETCHED_STEPS * len(replica_ids)).with_options(no_autotune_options())

    def make_shares(replica_ids: Sequence[int]) -> tf.data.Dataset:
        totals = np.repeat(_batch_sizes(len(source), batch_size), len(replica_ids))
        largest = tf.constant(totals.max(), tf.int64)
        left = totals[begin.step * len(replica_ids) :]
        sized = tf.data.Dataset.zip(make(replica_ids, epochs_of_shares), tf.data.Dataset.from_tensor_slices(left))
        return sized.map(lambda data, total: Share(data, total, largest))

    def ordered(epochs: Epochs) -> Ordered:
        facts = {"samples": order.samples, "batch_size": batch_size, "seed": order.seed, "shuffle": order.shuffle}
        return Ordered(epochs, lambda place: _batches(source, batch_size, order, strategy, place), facts)

    if replicas == 1:
        return note_order(make([0]), ordered(epochs))
    return with_shares(
        per_replica(make, strategy), lambda: note_order(per_replica(make_shares, strategy), ordered(epochs_of_shares))
    )


def _batch_sizes(num_samples: int, batch_size: int) -> NDArray[np.int64]:
    """The samples of each global batch of an epoch: int64 [steps]."""
    starts = np.arange(0, num_samples, batch_size, dtype=np.int64)
    return np.minimum(starts + batch_size, num_samples) - starts


def _indices(pieces: NDArray[np.int64], order: _Order, epochs: Epochs) -> tf.data.Dataset:
    """A dataset of the sample numbers of each of `pieces` [n, 2], int64 [k]; every iterator over it takes an epoch."""
    next_epoch = epochs.part()
    next_order = CountedCalls(lambda: [order.of(next_epoch())])

    def epoch(_: tf.Tensor) -> tf.data.Dataset:
        (indices,) = call_python(next_order, [], [tf.TensorSpec([order.samples], tf.int64)])
        return tf.data.Dataset.from_tensor_slices(pieces).map(lambda piece: indices[piece[0] : piece[1]])

    return tf.data.Dataset.from_tensors(0).flat_map(epoch)


def _integer(name: str, value: int, at_least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < at_least:
        raise UsageError(f"{name}: expected an integer of {at_least} or more. Received: {value!r}")
    return int(value)


def _run_seed() -> int:
    assignment = Assignment.from_environ()
    return assignment.seed if assignment else 0
