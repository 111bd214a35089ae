"""The record of how far a run is, which the chief sends to its launcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfdist.rundir.json_record import JsonRecord, is_finite
from tfdist.rundir.state_records import State


@dataclass(frozen=True)
class RunProgress(JsonRecord):
    """The progress of a run.

    Attributes:
        state: What the chief does; a `State` or its value.
        epoch: The epoch it is in, from 0.
        epochs: Epochs of the run.
        step: Steps done in this epoch.
        steps: Steps of an epoch; None where that is not known.
        metrics: Loss and metrics of the epoch, over all replicas, as they were last read, as text: a loss may be no
            number that JSON has.
        rate: Samples of the global batch a second over the last steps; 0 while unknown.
        waited: The share of the steps' time of this epoch that waited for data.
        epoch_left: Seconds until the end of the epoch; None while unknown.
        run_left: Seconds until the end of the run; None while unknown.
        validated: Batches of this epoch's validation that are done.
        validation_steps: Batches of a validation; None where that is not known.
        gpu_memory: Bytes in use on the fullest GPU of the chief; None without one.

    Raises:
        ValueError: `state` is none of `State`.
    """

    state: State
    epoch: int
    epochs: int
    step: int
    steps: int | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    rate: float = 0.0
    waited: float = 0.0
    epoch_left: float | None = None
    run_left: float | None = None
    validated: int = 0
    validation_steps: int | None = None
    gpu_memory: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", State(self.state))

    def check(self) -> None:
        counts = [self.epoch, self.epochs, self.step, self.validated]
        optional = [self.steps, self.validation_steps, self.gpu_memory]
        counts += [count for count in optional if count is not None]
        numbers = [self.rate, self.waited]
        numbers += [seconds for seconds in (self.epoch_left, self.run_left) if seconds is not None]
        if not all(isinstance(count, int) for count in counts) or not all(map(is_finite, [*counts, *numbers])):
            raise ValueError("expected numbers for how far it is")
        texts = [*self.metrics, *self.metrics.values()] if isinstance(self.metrics, dict) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("expected texts for metrics")
