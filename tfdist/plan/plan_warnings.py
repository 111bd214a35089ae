"""Warnings of a plan: it would work, but slowly, wastefully or not reproducibly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfdist.plan.plan import DataPlan, SourcePlan
from tfdist.plan.plan_inputs import SequentialRead
from tfdist.text import format_bytes, format_count

_MUCH = 256 << 20
"""From so many bytes on that every worker holds or reads there is a warning."""

_WAITING = 0.1
"""From this part of a step on that replicas wait for the one with the largest batch there is a warning."""


@dataclass(frozen=True)
class PlanWarning:
    """A warning.

    Attributes:
        name: A fixed name, for programs.
        key: The section or key of the config that it is about.
        text: The fact, its cost, and what to do.
    """

    name: str
    key: str
    text: str


def warnings_of(plan: DataPlan) -> tuple[PlanWarning, ...]:
    """Returns the warnings of a plan, the worst first."""
    found = [*_batches(plan), *_seed(plan)]
    for source in plan.sources:
        found += [*_random(source), *_whole(plan, source), *_sequence(plan, source), *_shares(plan, source)]
        found += _disk(plan, source)
    return tuple(found)


def _batches(plan: DataPlan) -> Iterator[PlanWarning]:
    batch, replicas, key = plan.train.batch, plan.layout.replicas, "data.batch_size"
    if plan.batch_size > plan.train.samples:
        yield PlanWarning(
            "one-step",
            key,
            f"a global batch of {plan.batch_size:,} is more than all {plan.train.samples:,} samples: every step takes "
            "all of them. Choose a smaller batch.",
        )
    if batch.empty:
        yield PlanWarning(
            "empty-replicas",
            key,
            f"{batch.samples:,} samples a step are fewer than the {replicas:,} replicas: {batch.empty:,} of them have "
            f"nothing to do in any step. The numbers stay exact. Use {batch.samples:,} replicas, or a larger batch.",
        )
    elif (waiting := batch.largest * replicas / batch.samples - 1) > _WAITING:
        better = -(-batch.samples // replicas) * replicas
        yield PlanWarning(
            "uneven-replicas",
            key,
            f"{batch.samples:,} samples on {replicas:,} replicas are {batch.smallest:,} or {batch.largest:,} each, and "
            f"all wait for the largest: a step takes about {waiting:.0%} more than an even one would. The numbers stay "
            f"exact. {better:,} samples would be even.",
        )


def _seed(plan: DataPlan) -> Iterator[PlanWarning]:
    if plan.seed is None:
        yield PlanWarning(
            "no-seed",
            "seed",
            "none is set: it is drawn when the run starts, and no other run has the same weights and order. Set seed, "
            "or reuse the one that the run writes into its config.yaml.",
        )


def _random(source: SourcePlan) -> Iterator[PlanWarning]:
    if source.sizes.random_calls:
        yield PlanWarning(
            "random-parse",
            source.key,
            f"its function draws random numbers with {', '.join(source.sizes.random_calls)}: they differ in every run, "
            "with the number of workers and after every resume. Use tf.image.stateless_random_* and "
            "tf.random.stateless_* with a seed that comes from the record, or augment, which is given one.",
        )


def _whole(plan: DataPlan, source: SourcePlan) -> Iterator[PlanWarning]:
    held = source.sizes.held_bytes
    if source.sizes.whole and plan.layout.workers > 1 and max(source.sizes.size, held) > _MUCH:
        yield PlanWarning(
            "read-whole",
            source.key,
            f"each of the {plan.layout.workers:,} workers reads all of it and holds {format_bytes(held)} in memory, "
            f"{format_bytes(held * plan.layout.workers)} together. `tfdist data shard` makes TFRecord files of it, of "
            "which each worker reads only its own records.",
        )


def _sequence(plan: DataPlan, source: SourcePlan) -> Iterator[PlanWarning]:
    sequence, workers = source.sizes.sequence, plan.layout.workers
    if sequence is None:
        return
    lanes, files = sequence.lanes, sum(file.samples > 0 for file in source.sizes.files)
    if lanes.number < workers and not source.sizes.shares:
        read, size = sum(reading.bytes for reading in source.worker_reads), source.sizes.size
        of = f"{format_count(files, sequence.unit)} {sequence.why}"
        yield PlanWarning(
            "few-files",
            source.key,
            f"{of}, {lanes.number:,} read at the same time, for {workers:,} "
            "workers: the records are dealt, and each worker reads and skips those of the others. Together they "
            f"read {format_bytes(read)} an epoch for {format_bytes(size)} of data. {_more_files(sequence)}",
        )
    largest = max(file.samples for file in source.sizes.files)
    if source.shuffle and lanes.window < largest:
        yield PlanWarning(
            "small-buffer",
            source.key,
            f"the shuffle buffer has room for {lanes.window:,} samples of each of the {lanes.number:,} files that are "
            f"read at the same time, and the largest has {largest:,}: its records are mixed only within windows "
            f"of {lanes.window:,}. Set shuffle_buffer to {largest * lanes.number:,} for whole files, or write files "
            "in a random order.",
        )


def _more_files(sequence: SequentialRead) -> str:
    if sequence.whole:
        return f"Write smaller {sequence.unit}s, of which as many are read at the same time as there are workers."
    return (
        "Write at least as many files as workers, or files that are local and not compressed, of which each worker "
        "reads only its own records."
    )


def _shares(plan: DataPlan, source: SourcePlan) -> Iterator[PlanWarning]:
    if source.sizes.shares and plan.layout.workers > 1:
        yield PlanWarning(
            "own-shares",
            source.key,
            f"each of the {plan.layout.workers:,} workers has its own data (sharding: none), and only that of this "
            "machine was read: samples and steps are planned as if all had as much. The workers agree on the numbers "
            "when the run starts.",
        )


def _disk(plan: DataPlan, source: SourcePlan) -> Iterator[PlanWarning]:
    if source.sizes.local_disk is not None and plan.layout.hosts > 1 and not source.sizes.shares:
        yield PlanWarning(
            "local-disk",
            source.key,
            f"{source.sizes.files[0].name} is on a disk of this host ({source.sizes.local_disk}), and the workers are "
            f"on {plan.layout.hosts} hosts: each host needs the same files at the same place. Copy them, or use a file "
            "system that all hosts share.",
        )
