"""The samples of a source, dealt to the replicas step by step, and what is done to each sample on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.data.ops.sample_batches import Augment, Augmentation, parallel_parses
from tfdist.data.ops.sample_checks import SampleChecks
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sample_source import PerSampleSource, SampleSource, SequentialSource
from tfdist.data.worker_consistency import AgreedSource
from tfdist.errors import DataError
from tfdist.order.epoch_order import EpochOrder, EpochSteps
from tfdist.order.epoch_span import EpochSpan, check_passes_in_sequence
from tfdist.order.per_worker_order import SampleOrder, WorkerShareOrder, WorkerShareSteps
from tfdist.order.sequential_order import LaneOrder, Lanes
from tfdist.runtime.batches.dataset_description import EpochCounter

Join = Callable[[Any, Any], Any]
"""Takes a batch, such as `(x, y)`, and what the second source has of the same samples; returns the batch of both."""


@dataclass(frozen=True)
class Companion:
    """A companion of the samples: what comes beside them.

    Attributes:
        source: As many samples, with the same numbers.
        join: Puts both together.
    """

    source: SampleSource
    join: Join

    def joined(self, batches: tf.data.Dataset, numbers: SampleIndices) -> tf.data.Dataset:
        """Batches of samples, with what this has of them.

        Args:
            batches: Of the samples that `numbers` numbers.
            numbers: These numbers.
        """
        both = tf.data.Dataset.zip((batches, self.source.batches(numbers)))
        return both.map(lambda batch, more: self.join(batch, more))


def augmented(batches: tf.data.Dataset, largest: int, augmentation: Augmentation) -> tf.data.Dataset:
    """Augments the samples of all batches in parallel, in order.

    As `Dataset.batch` makes batches of one size only, a smaller one is filled up by repeating a sample, an empty one
    with zeros, and cut after the augmentation.

    Args:
        batches: Structures of tensors, each [k, ...]; k may change and may be 0.
        largest: The largest k.
        augmentation: The change of each sample.
    """
    size = max(largest, 1)

    def fill(batch: Any, seeds: tf.Tensor) -> tuple[tf.Tensor, Any]:
        count = tf.shape(seeds)[0]
        places = tf.range(size)
        places = tf.where(places < count, places, 0)
        filled = tf.nest.map_structure(lambda rows: tf.gather(_with_zeros(rows), places), (batch, seeds))
        return tf.fill([size], count), filled

    samples = tf.data.Dataset.zip(batches, augmentation.seeds).map(fill).unbatch()
    changed = samples.map(
        lambda count, sample: (count, augmentation.augment(*sample)), num_parallel_calls=parallel_parses()
    )
    return changed.batch(size, drop_remainder=True).map(_cut)


def _with_zeros(rows: tf.Tensor) -> tf.Tensor:
    """The rows with one more of zeros or empty strings, with which an empty batch is filled."""
    return tf.concat([rows, tf.zeros(tf.concat([[1], tf.shape(rows)[1:]], 0), rows.dtype)], axis=0)


def _cut(counts: tf.Tensor, samples: Any) -> Any:
    return tf.nest.map_structure(lambda rows: rows[: counts[0]], samples)


def weighted(batches: tf.data.Dataset, weights: Mapping[int, float]) -> tf.data.Dataset:
    """Adds a weight to each sample: that of its class, and 1 for classes without one.

    Args:
        batches: Batches `(x, y)`. A label is a class's number, of shape [k] or [k, 1], or one-hot, [k, classes].
        weights: Class number -> weight.

    Returns:
        Batches `(x, y, weight)` with float32 weights [k].

    Raises:
        DataError: The samples have no label, weights of their own, or labels that name no class.
    """
    spec = batches.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        has = "weights of their own" if isinstance(spec, tuple) and len(spec) == 3 else "no label"
        raise DataError(
            f"Expected samples (x, y) that are weighted by their class. Received: samples with {has}. Leave "
            "class_weight out."
        )
    label = spec[1]
    if not isinstance(label, tf.TensorSpec) or label.dtype == tf.string or label.shape.rank not in (1, 2):
        raise DataError(
            f"Expected labels that are numbers of classes, or one-hot. Received: {label}. Leave class_weight out."
        )
    classes = tf.constant(sorted(weights), tf.int64)
    values = tf.constant([weights[number] for number in sorted(weights)], tf.float32)

    def with_weight(x: Any, y: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
        numbers = _numbers(y)
        places = tf.minimum(tf.searchsorted(classes, numbers), len(weights) - 1)
        has_weight = tf.gather(classes, places) == numbers
        return x, y, tf.where(has_weight, tf.gather(values, places), 1.0)

    return batches.map(with_weight) if weights else batches


def _numbers(labels: tf.Tensor) -> tf.Tensor:
    """The numbers of the classes, int64 [k]."""
    if labels.shape.rank == 2 and labels.shape[1] != 1:
        return tf.argmax(labels, axis=1)
    flat = tf.reshape(labels, [-1])
    return tf.cast(tf.round(flat) if flat.dtype.is_floating else flat, tf.int64)


@dataclass(frozen=True)
class SampleFeed:
    """Samples on their way to the replicas.

    Attributes:
        source: Where they come from.
        order: The order of those that this worker can read.
        steps: Which places of the order are whose in each step.
        augment: Changes each sample at random; None for no change.
        checks: What each sample must be.
        class_weight: Class number -> the weight of its samples; None for samples without weights.
        steps_per_epoch: Steps of an epoch; None for a pass over the samples.
        companion: What comes beside the samples, once they are weighted; None for nothing.
    """

    source: SampleSource
    order: SampleOrder
    steps: EpochSteps | WorkerShareSteps
    augment: Augment | None = None
    checks: SampleChecks = SampleChecks()
    class_weight: Mapping[int, float] | None = None
    steps_per_epoch: int | None = None
    companion: Companion | None = None

    @classmethod
    def of(
        cls,
        agreed: AgreedSource,
        batch_size: int,
        seed: int,
        shuffle: bool,
        replicas: int,
        augment: Augment | None = None,
        checks: SampleChecks = SampleChecks(),  # noqa: B008 - frozen
        class_weight: Mapping[int, float] | None = None,
        steps_per_epoch: int | None = None,
        companion: Companion | None = None,
    ) -> SampleFeed:
        """The feed of a source on which the workers agree.

        Args:
            agreed: The source, and whether it is this worker's own share.
            batch_size: Samples of a step over all replicas; more than an epoch has are the epoch.
            seed: The seed of the order.
            shuffle: Whether each epoch has an order of its own.
            replicas: The number of replicas of all workers.
            augment: See `SampleFeed`.
            checks: The same.
            class_weight: The same.
            steps_per_epoch: The same.
            companion: The same.

        Raises:
            UsageError: The source can only be read in sequence, and its epochs are to be no passes.
        """
        batch_size = min(batch_size, agreed.samples)
        if _lanes_of(agreed.source) is not None:
            check_passes_in_sequence(steps_per_epoch)
        changes = augment, checks, class_weight, steps_per_epoch, companion
        if agreed.sizes is None:
            order = _order(agreed.source, batch_size, seed, shuffle)
            steps_of_all = EpochSteps(agreed.samples, batch_size, replicas)
            return cls(agreed.source, order, steps_of_all, *changes)
        # Only its own worker takes samples of a share: how many are in a batch changes nothing for the others.
        own = _order(agreed.source, max(1, batch_size // len(agreed.sizes)), seed, shuffle)
        shares = WorkerShareOrder(own, sum(agreed.sizes[: agreed.worker]))
        steps = WorkerShareSteps(agreed.sizes, batch_size, replicas)
        return cls(agreed.source, shares, steps, *changes)

    def batches(
        self, replica_ids: Sequence[int], first_step: int, epochs: EpochCounter, *, stands_in: bool = False
    ) -> tf.data.Dataset:
        """The batches of some replicas, step by step; each iterator takes the next of `epochs`.

        Args:
            replica_ids: The replicas.
            first_step: Counted from 0.
            epochs: Counts the epochs.
            stands_in: Whether a batch that has no sample holds one all the same; see `SampleIndices`.
        """
        numbers = SampleIndices(self.order, self.steps, self.span, replica_ids, first_step, epochs, stands_in)
        batches = self._unweighted(numbers)
        batches = batches if self.class_weight is None else weighted(batches, self.class_weight)
        return batches if self.companion is None else self.companion.joined(batches, numbers)

    def _unweighted(self, numbers: SampleIndices) -> tf.data.Dataset:
        inspects = self.checks != SampleChecks()
        changes = None if self.augment is None else Augmentation(numbers.seeds(), self.augment)
        if changes is not None and not inspects and isinstance(self.source, PerSampleSource):
            return self.source.augmented(numbers, changes)
        batches = self.source.batches(numbers)
        if inspects:
            batches = self.checks.inspected(batches, numbers.batches(), self.source.name)
        return batches if changes is None else augmented(batches, numbers.largest, changes)

    @property
    def span(self) -> EpochSpan:
        """The steps that an epoch takes, and the passes over the samples that they are of."""
        return EpochSpan(self.steps.num_samples, self.steps.batch_size, self.steps_per_epoch)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts on which the batches depend, by name."""
        order, steps = self.order, self.steps
        lanes = _lanes_of(self.source)
        return {
            "samples": steps.num_samples,
            "batch_size": steps.batch_size,
            "seed": order.seed,
            "shuffle": order.shuffle,
            "augmented": self.augment is not None,
            **({"shares": list(steps.sizes)} if isinstance(steps, WorkerShareSteps) else {}),
            **({} if lanes is None else {"lanes": lanes.number, "window": lanes.window}),
            **({} if self.steps_per_epoch is None else {"steps_per_epoch": self.steps_per_epoch}),
        }


def _order(source: SampleSource, batch_size: int, seed: int, shuffle: bool) -> SampleOrder:
    lanes = _lanes_of(source)
    return EpochOrder(len(source), seed, shuffle) if lanes is None else LaneOrder(lanes, batch_size, seed, shuffle)


def _lanes_of(source: SampleSource) -> Lanes | None:
    return source.lanes if isinstance(source, SequentialSource) else None
