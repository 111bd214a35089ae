"""The pipeline from a source to what Keras `fit` takes: the same global batches for any number of replicas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.argument_checks import boolean, integer
from tfdist.data.ops.prefetch import PREFETCHED_STEPS
from tfdist.data.ops.python_functions import CountedCalls, call_python
from tfdist.data.ops.sample_batches import Augment
from tfdist.data.ops.sample_checks import OnNan, SampleChecks
from tfdist.data.sample_feed import Companion, SampleFeed
from tfdist.data.sample_source import SampleSource
from tfdist.data.worker_consistency import AgreedSource, Sharding, agree
from tfdist.order.epoch_order import EpochSteps
from tfdist.order.epoch_span import START, EpochSpan, Position
from tfdist.order.per_worker_order import WorkerShareSteps
from tfdist.runtime.batches.dataset_description import (
    EpochCounter,
    PartialEpoch,
    PipelineOrder,
    description_of,
    even_batches,
)
from tfdist.runtime.batches.replica_batches import (
    ReplicaBatch,
    extent_of,
    no_autotune_options,
    per_replica,
    piece_bounds,
)
from tfdist.runtime.random_state import run_seed
from tfdist.runtime.strategy_settings import settings_of

Batches: TypeAlias = tf.data.Dataset | tf.distribute.DistributedDataset


class OpenedDataset(NamedTuple):
    """A source that all workers have opened.

    Attributes:
        batches: What `fit` takes.
        samples: Samples of an epoch, over all workers.
        order: What the order of the samples depends on, by name; JSON.
        source: This worker's samples.
        begin: Makes the batches from a position on, in place of `batches`.
    """

    batches: Batches
    samples: int
    order: Mapping[str, Any]
    source: SampleSource
    begin: Callable[[Position], Batches]


def open_and_build(
    open_source: Callable[[], SampleSource],
    *,
    sharding: Sharding = "auto",
    strategy: tf.distribute.Strategy | None = None,
    open_companion: Callable[[SampleSource], Companion] | None = None,
    **options: Any,
) -> OpenedDataset:
    """Returns the batches of a source, once all workers have it and agree on it.

    Args:
        open_source: Opens this worker's source. All workers call this together.
        sharding: With `auto` all workers see the same data, of which each reads its part: where they do not, the run
            stops. With `none` each worker's data is its own share, and a global batch takes samples of all shares
            in proportion to their sizes, so that all workers have equally many steps.
        strategy: The strategy; by default the current one.
        open_companion: Opens what comes beside the samples of a source, on every worker; None for nothing.
        **options: See `_build`.

    Raises:
        DataError: On every worker: one cannot open its source, or they differ and must not.
        UsageError: An argument is impossible.
    """
    strategy = strategy or tf.distribute.get_strategy()
    agreed = agree(open_source, sharding, strategy)
    if open_companion is not None:
        options["companion"] = _agreed_companion(open_companion, agreed, strategy)
    batches, feed = _build(agreed, strategy, **options)
    begin = functools.partial(replica_batches, feed, strategy)
    return OpenedDataset(batches, agreed.samples, feed.facts, agreed.source, begin)


def _agreed_companion(
    open_companion: Callable[[SampleSource], Companion], agreed: AgreedSource, strategy: tf.distribute.Strategy
) -> Companion:
    """Returns what comes beside the samples, once all workers have it and agree on it."""
    opened: list[Companion] = []

    def open_source() -> SampleSource:
        opened.append(open_companion(agreed.source))
        return opened[0].source

    agree(open_source, "auto", strategy)
    return opened[0]


def build(source: SampleSource, *, strategy: tf.distribute.Strategy | None = None, **options: Any) -> Batches:
    """Returns the batches of a source that is known to be the same on every worker; see `_build` for the options."""
    return _build(AgreedSource(source), strategy or tf.distribute.get_strategy(), **options)[0]


def _build(
    agreed: AgreedSource,
    strategy: tf.distribute.Strategy,
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int | None = None,
    begin: Position = START,
    augment: Augment | None = None,
    on_nan: OnNan = "keep",
    classes: int | None = None,
    class_weight: Mapping[int, float] | None = None,
    steps_per_epoch: int | None = None,
    companion: Companion | None = None,
) -> tuple[Batches, SampleFeed]:
    """Returns the batches of a source, and the feed that they come from; every iterator is the next epoch.

    An epoch has `ceil(samples / batch_size)` steps on every worker and visits every sample once, or takes
    `steps_per_epoch` steps of such passes one after another. A global batch is cut into near-equal pieces, one a
    replica; at the end of a pass, or with more replicas than samples, some are empty.

    Args:
        agreed: The samples, and whether they are this worker's own share.
        strategy: The strategy in force.
        batch_size: Samples of a step over all replicas.
        shuffle: Whether each epoch has an order of its own, which depends on `seed` and the epoch alone.
        seed: The seed of the order; by default the run's, or 0 outside `tfdist train`.
        begin: Where a training resumes. Within an epoch, `fit` first takes the samples that were left of it; none of
            those before are read.
        augment: Changes each sample at random: called with the sample, such as `(x, y)`, and a seed for
            `tf.random.stateless_*`, int32 [2], that depends on `seed`, the epoch and the sample alone.
        on_nan: With `stop`, a NaN in a sample ends the training with an error that names the sample.
        classes: Labels must be integers from 0 to `classes - 1`; an error names the sample with another one.
        class_weight: Class number -> the weight of its samples, which batches then have as their third part.
        steps_per_epoch: Steps of an epoch; None for a pass over the samples.
        companion: What comes beside the samples; None for nothing.

    Returns:
        A `tf.data.Dataset` of global batches for one replica, a `tf.distribute.DistributedDataset` for several; and
        the feed, whose `facts` are `OpenedDataset.order`.

    Raises:
        UsageError: An argument is impossible.
    """
    batch_size = integer("batch_size", batch_size, at_least=1)
    seed = integer("seed", run_seed.value if seed is None else seed, at_least=0)
    shuffle = boolean("shuffle", shuffle, "No size of a buffer is needed: all samples are shuffled.")
    checks = SampleChecks(on_nan, classes)
    replicas = strategy.num_replicas_in_sync
    changes = augment, checks, class_weight, steps_per_epoch, companion
    feed = SampleFeed.of(agreed, batch_size, seed, shuffle, replicas, *changes)
    if not begin.step:
        return replica_batches(feed, strategy, begin), feed
    later = replica_batches(feed, strategy, Position(begin.epoch + 1))
    description_of(later).partial_epoch = PartialEpoch(begin.step, lambda: replica_batches(feed, strategy, begin))
    return later, feed


def replica_batches(feed: SampleFeed, strategy: tf.distribute.Strategy, begin: Position = START) -> Batches:
    """Returns what a feed gives to the replicas of a strategy.

    Args:
        feed: The samples.
        strategy: The strategy in force.
        begin: Where the first iterator begins; it ends with the epoch. Every further one is the next epoch.
    """
    steps, span = feed.steps, feed.span
    # Shares of the workers' own are as large as their files make them.
    shows_extent = settings_of(strategy).nccl is not None and isinstance(steps, EpochSteps)
    # A script may iterate over the one and train on the other.
    epochs, epochs_of_shares = EpochCounter(begin.epoch), EpochCounter(begin.epoch)

    def make(
        replica_ids: Sequence[int], epochs: EpochCounter = epochs, *, stands_in: bool = False
    ) -> tf.data.Dataset:
        batches = feed.batches(replica_ids, begin.step, epochs, stands_in=stands_in)
        counted = batches.apply(tf.data.experimental.assert_cardinality(steps_left(replica_ids)))
        return counted.prefetch(PREFETCHED_STEPS * len(replica_ids)).with_options(no_autotune_options())

    def make_shares(replica_ids: Sequence[int]) -> tf.data.Dataset:
        each = len(replica_ids)
        batches = _numbers_of_batches(span, begin.step, each, epochs_of_shares)
        # With shares of the workers' own, a piece may be larger than an even part of the batch.
        largest = tf.constant(steps.num_replicas * steps.largest_piece(range(steps.num_replicas)), tf.int64)

        def share(data: Any, number: tf.Tensor) -> ReplicaBatch:
            step = number // each
            samples, first, counting = _place_of(steps, step, replica_ids[0] + number % each)
            counted = () if steps.every_replica_has_samples else counting
            total = _samples_in(steps, step)
            extent = extent_of(total) if shows_extent else ()
            return ReplicaBatch(data, samples, first, total, counted, largest, extent)

        shares = tf.data.Dataset.zip(make(replica_ids, epochs_of_shares, stands_in=True), batches).map(share)
        return shares.prefetch(each)

    def steps_left(replica_ids: Sequence[int]) -> int:
        return (len(span) - begin.step) * len(replica_ids)

    def ordered(batches: Batches, epochs: EpochCounter) -> Batches:
        order = PipelineOrder(epochs, lambda place: replica_batches(feed, strategy, place), feed.facts)
        description_of(batches).order = order
        return batches

    if steps.num_replicas == 1:
        return ordered(make([0]), epochs)
    batches = per_replica(make, strategy)
    if shows_extent and span.steps_per_epoch is None:
        last = steps.num_samples % steps.batch_size or steps.batch_size
        description_of(batches).even = even_batches(steps.batch_size, last, steps.num_replicas)
    description_of(batches).replica_batches = functools.cache(
        lambda: ordered(per_replica(make_shares, strategy), epochs_of_shares)
    )
    return batches


def _numbers_of_batches(span: EpochSpan, first: int, each: int, epochs: EpochCounter) -> tf.data.Dataset:
    """The numbers of the batches of `each` replicas in their pass, from a step of an epoch on, scalars int64."""
    end = len(span) * each
    if span.steps_per_epoch is None:
        return tf.data.Dataset.range(first * each, end)
    take_epoch = epochs.part()
    next_begin = CountedCalls(lambda: [np.int64(take_epoch() * end % (span.steps_per_pass * each))])

    def of_epoch(_: tf.Tensor) -> tf.data.Dataset:
        (begin,) = call_python(next_begin, [], [tf.TensorSpec([], tf.int64)])
        return tf.data.Dataset.range(begin + first * each, begin + end)

    numbers = tf.data.Dataset.from_tensors(0).flat_map(of_epoch)
    return numbers.map(lambda number: number % (span.steps_per_pass * each))


def _samples_in(steps: EpochSteps | WorkerShareSteps, step: tf.Tensor) -> tf.Tensor:
    """The samples of the global batch of a step, a scalar int64."""
    return tf.minimum(tf.constant(steps.batch_size, tf.int64), steps.num_samples - step * steps.batch_size)


def _place_of(
    steps: EpochSteps | WorkerShareSteps, step: tf.Tensor, replica: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A replica's place in the global batch of a step.

    Returns:
        How many samples of it the replica has, the place of the first of them, and how many replicas have any: scalars,
        int64.
    """
    if isinstance(steps, EpochSteps):
        total = _samples_in(steps, step)
        first, end = piece_bounds(total, steps.num_replicas, replica)
        return end - first, first, tf.minimum(total, steps.num_replicas)

    def place(step: np.int64, replica: np.int64) -> NDArray[np.int64]:
        sizes = np.diff(steps.pieces(int(step), int(step) + 1, range(steps.num_replicas)))[:, 0]
        return np.array([sizes[replica], sizes[:replica].sum(), np.count_nonzero(sizes)], np.int64)

    samples, first, counting = tf.unstack(tf.ensure_shape(tf.numpy_function(place, [step, replica], tf.int64), [3]))
    return samples, first, counting
