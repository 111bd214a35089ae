"""The samples of a source, dealt to the replicas step by step, and what is done to each sample on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.data.ops.augmentation import augmented
from tfdist.data.ops.class_weights import weighted
from tfdist.data.ops.companions import Companion
from tfdist.data.ops.sample_batches import Augment, Augmentation
from tfdist.data.ops.sample_checks import SampleChecks
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sample_source import PerSampleSource, SampleSource, SequentialSource
from tfdist.data.worker_consistency import AgreedSource
from tfdist.order.epoch_order import EpochOrder, EpochSteps
from tfdist.order.epoch_span import EpochSpan, check_passes_in_sequence
from tfdist.order.per_worker_order import SampleOrder, WorkerShareOrder, WorkerShareSteps
from tfdist.order.sequential_order import LaneOrder, Lanes
from tfdist.runtime.batches.dataset_description import EpochCounter


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
