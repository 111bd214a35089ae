"""Request of `tfdist verify --kill` that a run writes down every step, and is killed or held at some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
