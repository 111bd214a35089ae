"""List of the runs in a folder, each with its status: no clock, no disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdist.reports.status.run_status import RunCondition, RunStatus


@dataclass(frozen=True)
class RunList:
    """The runs in a folder at one moment.

    Attributes:
        folder: The folder.
        now: The time, in seconds since 1970 (UTC).
        runs: The runs, the newest first.
        unreadable: Run directory -> why it could not be read.
    """

    folder: Path
    now: float
    runs: tuple[RunStatus, ...]
    unreadable: Mapping[Path, str]

    @property
    def is_over(self) -> bool:
        """True if every run that could be read has ended, or its launcher is gone."""
        return all(run.condition.is_over or run.condition is RunCondition.DEAD for run in self.runs)


def newest_first(runs: list[RunStatus]) -> tuple[RunStatus, ...]:
    """Sorted by when they began, those of which it is unknown last."""
    return tuple(sorted(runs, key=lambda run: run.snapshot.created or 0.0, reverse=True))


def steps_of(run: RunStatus) -> int | None:
    """Batches that a run has trained since it began; None where no worker has said."""
    return max((row.state.step for row in run.rows), default=None)


def epoch_of(run: RunStatus) -> int | None:
    """The epoch that a run is in, or ended in, from 0; None where no worker has said."""
    return max((row.state.epoch for row in run.rows), default=None)
