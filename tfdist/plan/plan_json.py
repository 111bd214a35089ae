"""A plan as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfdist.plan.plan import DataPlan, SourcePlan
from tfdist.plan.plan_inputs import SequentialRead
from tfdist.plan.plan_warnings import warnings_of


def to_json(plan: DataPlan) -> dict[str, Any]:
    """The plan in JSON's types; sizes in bytes."""
    layout = plan.layout
    return {
        "name": plan.name,
        "workers": layout.workers,
        "replicas": layout.replicas,
        "hosts": layout.hosts,
        "batch_size": plan.batch_size,
        "epochs": plan.epochs,
        "seed": plan.seed,
        "optimizer": plan.optimizer,
        "learning_rate": plan.learning_rate,
        "data": {source.key.rpartition(".")[2]: _source(plan, source) for source in plan.sources},
        "warnings": [dataclasses.asdict(warning) for warning in warnings_of(plan)],
    }


def _source(plan: DataPlan, source: SourcePlan) -> dict[str, Any]:
    sizes = source.sizes
    return {
        "format": sizes.format,
        "samples": source.samples,
        "bytes": sizes.size,
        "steps_per_epoch": plan.steps_per_epoch if source is plan.train else source.steps,
        "steps_per_pass": source.steps,
        "batch": dataclasses.asdict(source.batch),
        "last_batch": dataclasses.asdict(source.tail or source.batch),
        "shuffle": source.shuffle,
        "sharding": "none" if sizes.shares else "auto",
        "sequence": None if sizes.sequence is None else _sequence(sizes.sequence),
        "prefetched_batches": source.prefetched,
        "memory_per_worker": {
            "held": source.memory.held,
            "batches": source.memory.batches,
            "total": source.memory.total,
            "sample": sizes.sample_bytes,
            "estimated": source.memory.estimated,
        },
        "files": [dataclasses.asdict(file) for file in sizes.files],
        "reads": [
            {
                "worker": reading.worker,
                "samples": reading.samples,
                "bytes": reading.bytes,
                "whole": sizes.whole,
                "files": {
                    sizes.files[place].name: {
                        "samples": int(reading.file_samples[place]),
                        "bytes": int(reading.file_bytes[place]),
                    }
                    for place in reading.files.tolist()
                },
            }
            for reading in source.worker_reads
        ],
    }


def _sequence(sequence: SequentialRead) -> dict[str, Any]:
    """`read_over_at_resume`: samples of each file that are skipped, at most, when a run resumes within an epoch."""
    lanes = sequence.lanes
    return {
        "why": sequence.why,
        "files_at_once": lanes.number,
        "shuffle_window": lanes.window,
        "read_over_at_resume": max(lanes.counts),
    }
