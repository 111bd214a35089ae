"""Reader of the status of runs: reads run directories, one or those of a folder, looks for their processes, judges."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.launch.run_dir.epoch_metrics import last_metrics
from tfdist.reports.status.run_status import RunCondition, RunStatus, judge
from tfdist.rundir.layout import RunDir
from tfdist.rundir.process_presence import presence
from tfdist.rundir.run_snapshot import read_run, runs_below


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


def read_runs(folder: str | Path) -> RunList | None:
    """Returns what the runs in a folder are doing now; None where it has none, or is a run directory itself.

    Args:
        folder: Such as `runs`, in which each run has a directory. A run that cannot be read is named in the list.
    """
    path = Path(folder)
    found = read_listed(path, () if RunDir(path).run_file.exists() else runs_below(path))
    return found if found.runs or found.unreadable else None


def read_listed(folder: Path, directories: Iterable[Path]) -> RunList:
    """Returns what some of the runs in a folder are doing now.

    Args:
        directories: Run directories in it. One that is removed meanwhile is left out.
    """
    runs: list[RunStatus] = []
    unreadable: dict[Path, str] = {}
    for directory in directories:
        try:
            runs.append(read_status(directory))
        except RunDirError as error:
            if directory.exists():  # else it was removed meanwhile
                unreadable[directory] = str(error)
    return RunList(folder.absolute(), time.time(), newest_first(runs), unreadable)


def read_status(run_dir: str | Path) -> RunStatus:
    """Returns what a run is doing now.

    Raises:
        RunDirError: The directory is not a run's, or cannot be read.
    """
    snapshot = read_run(RunDir(Path(run_dir)))
    there = {state.index: presence(state.host, state.pid, state.time, state.started) for state in snapshot.workers}
    job = snapshot.job
    launcher = None if job is None else presence(job.host, job.pid, job.time, job.started)
    judged = judge(snapshot, there, launcher, time.time())
    return dataclasses.replace(judged, metrics=last_metrics(snapshot.run.metrics_file))
