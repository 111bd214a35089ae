"""What a checkpoint says of itself, besides the numbers of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.order.position import Position
from tfdist.rundir.json_record import JsonRecord


@dataclass(frozen=True)
class CheckpointSummary(JsonRecord):
    """One checkpoint, as a JSON file beside its arrays.

    Attributes:
        epoch: Where the training stands: the epoch, from 0.
        step: Steps of the epoch that are done.
        total: Steps of the run that are done.
        seed: The run's.
        batch_size: Samples of a global batch.
        samples: Samples of an epoch.
        workers: Workers that trained.
        replicas: Their replicas.
        time: When it was made, in seconds since 1970 (UTC).
        variables: Shape and dtype of each variable in the file of weights: the model's, then the optimizer's.
        logs: Of the last step, by name.
        metrics: Of the epoch at whose end it was made, by name; nothing within an epoch.
        record: What the run has written down of its epochs so far.
        config: What was trained.
        versions: Package -> version of what trained.
        order: What the order of the samples depends on beside these, by name.
        job: The job that made it, different for every start by hand; empty without a launcher.
    """

    epoch: int
    step: int
    total: int
    seed: int
    batch_size: int
    samples: int
    workers: int
    replicas: int
    time: float
    variables: Sequence[Sequence[Any]] = ()
    logs: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    order: Mapping[str, Any] = field(default_factory=dict)
    job: str = ""

    @property
    def position(self) -> Position:
        """Where the training stands."""
        return Position(self.epoch, self.step)
