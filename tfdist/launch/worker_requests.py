"""Requests to the workers of a run that is tried: to record it, to trace and kill it, to rehearse a few steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.errors import UsageError


@dataclass(frozen=True)
class RecordingRequest:
    """A request for a recording: what is recorded, and how the run differs from any other.

    Attributes:
        directory: Where each worker writes its recording; it exists on every worker's machine.
        steps: Training steps after which the run ends.
        replicas: Replicas of the whole job: on physical GPUs where there are enough, else on logical devices.
        precision: The Keras dtype policy to use, whatever the target sets; None leaves it to the target.
        perturbed: Whether the weights of each model are changed by about a rounding error before its first step, on one
            replica.
    """

    directory: str
    steps: int
    replicas: int = 1
    precision: str | None = None
    perturbed: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1 or self.replicas < 1:
            raise UsageError(
                "A recording has at least one step and one replica. "
                f"Received: steps={self.steps}, replicas={self.replicas}"
            )

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> RecordingRequest | None:
        """The request with these fields, as `dataclasses.asdict` makes them; None for None."""
        return None if fields is None else cls(**fields)

    def file(self, index: int) -> Path:
        """The recording of worker `index`."""
        return Path(self.directory) / f"worker-{index}.npz"


@dataclass(frozen=True)
class Kill:
    """The end of one attempt by SIGKILL.

    It comes after the first step of the attempt, from `step` on, after which a checkpoint of this attempt exists: so
    the next attempt starts later than this one did.

    Attributes:
        worker: The worker that is killed.
        step: The least number of steps of the run that are done by then.
    """

    worker: int
    step: int


@dataclass(frozen=True)
class TraceRequest:
    """A run in which every worker writes down its steps as they are done.

    Attributes:
        directory: Where they are written; it exists on every worker's machine.
        steps: Steps of the run after which it ends; None for all that the target trains.
        kills: One for attempt 0, one for attempt 1 and so on; later attempts are not killed.
        holds: Steps of the run, ascending. From each on, once a checkpoint of the attempt exists, the chief's worker
            waits right after a step until `passed_file` is there.
    """

    directory: str
    steps: int | None = None
    kills: tuple[Kill, ...] = ()
    holds: tuple[int, ...] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> TraceRequest | None:
        """The request with these fields, as `dataclasses.asdict` makes them; None for None."""
        if fields is None:
            return None
        kills = tuple(Kill(**kill) for kill in fields["kills"])
        return cls(**{**fields, "kills": kills, "holds": tuple(fields["holds"])})

    def kill(self, worker: int, attempt: int) -> Kill | None:
        """The kill of a worker in an attempt, if there is to be one."""
        kill = self.kills[attempt] if attempt < len(self.kills) else None
        return kill if kill is not None and kill.worker == worker else None

    def steps_file(self, worker: int, attempt: int) -> Path:
        """The steps that a worker wrote down in an attempt."""
        return Path(self.directory) / f"worker-{worker}.{attempt}.jsonl"

    def end_file(self, worker: int) -> Path:
        """The weights of a worker at the end of its latest `fit`."""
        return Path(self.directory) / f"worker-{worker}.npz"

    def reached_file(self, hold: int) -> Path:
        """Says that the run is held for the hold of this number, from 0, at which step and in which attempt."""
        return Path(self.directory) / f"reached-{hold}.json"

    def passed_file(self, hold: int) -> Path:
        """Lets the run go on, also one that starts anew meanwhile."""
        return Path(self.directory) / f"passed-{hold}"


@dataclass(frozen=True)
class RehearsalRequest:
    """A request for a rehearsal: how a run differs that is only rehearsed.

    Attributes:
        folder: Where Keras writes what it would write elsewhere; it exists on this machine and is removed at the end.
        steps: Executions of training, and of each evaluation, after which a `fit` ends.
        plan_seconds: Seconds in which the first `fit` is to be planned; the run ends there. None for a run that goes
            on to its end, with the `callbacks` of each `fit`.
    """

    folder: str
    steps: int = 2
    plan_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UsageError(f"A rehearsal has at least one step. Received: steps={self.steps}")

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> RehearsalRequest | None:
        """The request with these fields, as `dataclasses.asdict` makes them; None for None."""
        return None if fields is None else cls(**fields)

    @property
    def plans(self) -> bool:
        """True if the first `fit` is planned, and no callback of it is called."""
        return self.plan_seconds is not None

    @property
    def plan_file(self) -> Path:
        """The file with what the chief has found out of the first `fit` (JSON)."""
        return Path(self.folder) / "fit.json"
