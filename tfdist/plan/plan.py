"""Data plan of a run: what each step, replica and worker will get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.config.data_sections import SourceConfig
from tfdist.config.schema import RunConfig
from tfdist.order.epoch_order import bounds, num_steps
from tfdist.order.epoch_span import check_passes_in_sequence
from tfdist.plan.plan_inputs import ClusterSize, PipelineBuffers, SourceSizes
from tfdist.plan.worker_reads import WorkerReads, worker_reads


@dataclass(frozen=True)
class BatchSizes:
    """The pieces of a global batch.

    Attributes:
        samples: Samples of all replicas.
        smallest: Samples of the replica that has the fewest.
        largest: Samples of the replica that has the most.
        empty: Replicas without a sample.
    """

    samples: int
    smallest: int
    largest: int
    empty: int

    @classmethod
    def deal(cls, samples: int, replicas: int) -> BatchSizes:
        """Deals `samples` to `replicas`."""
        sizes = [stop - start for start, stop in (bounds(samples, replicas, k) for k in range(replicas))]
        return cls(samples, min(sizes), max(sizes), sizes.count(0))


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that the input of one worker takes, besides what TensorFlow and Python take themselves.

    Attributes:
        held: Bytes held all the time: arrays, or the places of the records.
        batches: Bytes at most of the batches that are read, wait or are trained on.
        estimated: Whether only the size of a record is known, not that of a sample.
    """

    held: int
    batches: int
    estimated: bool

    @property
    def total(self) -> int:
        """All bytes."""
        return self.held + self.batches


@dataclass(frozen=True)
class SourcePlan:
    """The plan of one section of the config.

    Attributes:
        key: The section: `data.train` or `data.validation`.
        sizes: What the plan was made from.
        samples: Samples over all workers.
        shuffle: Whether every epoch has an order of its own.
        steps: Steps for every sample once, the same on every worker.
        batch: A full global batch; the only one when there are fewer samples.
        tail: The last batch of an epoch when it is smaller; None when all are full.
        worker_reads: What each worker reads.
        memory: What the input of a worker takes.
        prefetched: Batches of each replica that wait for their step, at most.
    """

    key: str
    sizes: SourceSizes
    samples: int
    shuffle: bool
    steps: int
    batch: BatchSizes
    tail: BatchSizes | None
    worker_reads: tuple[WorkerReads, ...]
    memory: MemoryEstimate
    prefetched: int


@dataclass(frozen=True)
class DataPlan:
    """A run's plan for its data.

    Attributes:
        name: The name of the run.
        layout: Workers and replicas.
        batch_size: The global batch that the config asks for.
        epochs: Epochs of the training.
        steps_per_epoch: Steps of one of them; as many as `train` has where an epoch is every sample once.
        seed: The run's seed; None when it is drawn at the start.
        optimizer: The name of the optimizer.
        learning_rate: As in the config, a number or a schedule's name; None for the optimizer's own.
        train: The samples to train on.
        validation: Those to validate on; None without.
    """

    name: str
    layout: ClusterSize
    batch_size: int
    epochs: int
    steps_per_epoch: int
    seed: int | None
    optimizer: str
    learning_rate: float | str | None
    train: SourcePlan
    validation: SourcePlan | None

    @property
    def sources(self) -> tuple[SourcePlan, ...]:
        """Training and, where there is one, validation."""
        return (self.train,) if self.validation is None else (self.train, self.validation)


def make_plan(
    config: RunConfig, layout: ClusterSize, sizes: Mapping[str, SourceSizes], buffering: PipelineBuffers
) -> DataPlan:
    """Plans a run.

    Args:
        config: The run's.
        layout: Workers and replicas.
        sizes: Section -> its sizes, for `data.train` and, where the config has one, `data.validation`.
        buffering: How many batches a pipeline holds.

    Raises:
        UsageError: Epochs are to have a number of steps, over samples that are read in sequence.
    """
    data = config.data

    def source(key: str, section: SourceConfig) -> SourcePlan:
        return _plan_source(key, section.shuffle, data.batch_size, layout, sizes[key], buffering)

    if sizes["data.train"].sequence is not None:
        check_passes_in_sequence(config.fit.steps_per_epoch)
    optimizer, rate = _optimizer(config.compile.optimizer)
    train = source("data.train", data.train)
    return DataPlan(
        name=config.name,
        layout=layout,
        batch_size=data.batch_size,
        epochs=config.fit.epochs,
        steps_per_epoch=config.fit.steps_per_epoch or train.steps,
        seed=config.seed,
        optimizer=optimizer,
        learning_rate=rate,
        train=train,
        validation=None if data.validation is None else source("data.validation", data.validation),
    )


def _plan_source(
    key: str, shuffle: bool, batch_size: int, layout: ClusterSize, sizes: SourceSizes, buffering: PipelineBuffers
) -> SourcePlan:
    # The other workers' data cannot be seen from here: it counts as equally much.
    samples = sizes.samples * (layout.workers if sizes.shares else 1)
    batch = BatchSizes.deal(min(batch_size, samples), layout.replicas)
    rest = samples % batch.samples
    return SourcePlan(
        key=key,
        sizes=sizes,
        samples=samples,
        shuffle=shuffle,
        steps=num_steps(samples, batch_size),
        batch=batch,
        tail=BatchSizes.deal(rest, layout.replicas) if rest else None,
        worker_reads=worker_reads(sizes, batch_size, layout.workers, shuffle),
        memory=_memory(sizes, batch, layout, buffering),
        prefetched=buffering.prefetched,
    )


def _memory(sizes: SourceSizes, batch: BatchSizes, layout: ClusterSize, buffering: PipelineBuffers) -> MemoryEstimate:
    """Each replica's waiting batches and the one that it trains on, and what is being read."""
    one = batch.largest * sizes.sample_bytes
    reading = one
    if sizes.format == "tfrecord" and sizes.sequence is None:
        reading = buffering.groups * max(one, min(buffering.group_bytes, sizes.size))
    return MemoryEstimate(
        sizes.held_bytes, (buffering.prefetched + 1) * layout.per_worker * one + reading, sizes.estimated
    )


def _optimizer(section: Any) -> tuple[str, float | str | None]:
    """The optimizer's name and its learning rate, from `compile.optimizer`."""
    if isinstance(section, str):
        return section, None
    rate = section.get("learning_rate", section.get("args", {}).get("learning_rate"))
    if isinstance(rate, Mapping):
        rate = str(rate.get("name") or rate.get("build") or "a schedule")
    return str(section.get("name") or section["build"]), rate
