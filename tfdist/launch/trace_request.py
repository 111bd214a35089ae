"""What `tfdist verify --kill` asks of a run besides training: to write down every step, and where to be killed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kill:
    """The end of one attempt, by SIGKILL.

    It comes after the first step of the attempt, from `step` on, that finds a checkpoint made in the attempt: the next
    one begins later than this one did.

    Attributes:
        worker: Who is killed.
        step: Steps of the run that are done by then, at least.
    """

    worker: int
    step: int


@dataclass(frozen=True)
class TraceRequest:
    """A run of which every worker writes down its steps, as they come.

    Attributes:
        directory: Where they are written; it exists, on every worker's machine.
        steps: Steps of the run after which it ends; None for all that the target trains.
        kills: That of attempt 0, of attempt 1 and so on; later attempts are left alone.
    """

    directory: str
    steps: int | None = None
    kills: tuple[Kill, ...] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any] | None) -> TraceRequest | None:
        """The request with these fields, as `dataclasses.asdict` makes them; None for None."""
        if fields is None:
            return None
        return cls(**{**fields, "kills": tuple(Kill(**kill) for kill in fields["kills"])})

    def kill(self, worker: int, attempt: int) -> Kill | None:
        """The kill of a worker in an attempt, if there is to be one."""
        kill = self.kills[attempt] if attempt < len(self.kills) else None
        return kill if kill is not None and kill.worker == worker else None

    def steps_file(self, worker: int, attempt: int) -> Path:
        """What a worker wrote down of the steps of an attempt."""
        return Path(self.directory) / f"worker-{worker}.{attempt}.jsonl"

    def end_file(self, worker: int) -> Path:
        """The weights with which a worker ended its latest `fit`."""
        return Path(self.directory) / f"worker-{worker}.npz"
