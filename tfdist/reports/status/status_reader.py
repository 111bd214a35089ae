"""Reader of the status of runs: reads run directories, looks for their processes, judges."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.launch.run_dir.epoch_metrics import last_metrics
from tfdist.reports.status.run_list import RunList, newest_first
from tfdist.reports.status.run_status import RunStatus, judge
from tfdist.rundir.layout import RunDir
from tfdist.rundir.process_presence import presence
from tfdist.rundir.run_snapshot import read_run, runs_below


def read_runs(folder: str | Path) -> RunList | None:
    """What the runs in a folder are doing now; None where it has none, or is a run directory itself.

    Args:
        folder: Such as `runs`, in which each run has a directory. A run that cannot be read is named in the list.
    """
    path = Path(folder)
    directories = () if RunDir(path).run_file.exists() else runs_below(path)
    runs: list[RunStatus] = []
    unreadable: dict[Path, str] = {}
    for directory in directories:
        try:
            runs.append(read_status(directory))
        except RunDirError as error:
            if directory.exists():  # else it was removed meanwhile
                unreadable[directory] = str(error)
    return RunList(path.absolute(), time.time(), newest_first(runs), unreadable) if runs or unreadable else None


def read_status(run_dir: str | Path) -> RunStatus:
    """What a run is doing now.

    Raises:
        RunDirError: The directory is not a run's, or cannot be read.
    """
    snapshot = read_run(RunDir(Path(run_dir)))
    there = {state.index: presence(state.host, state.pid, state.time, state.started) for state in snapshot.workers}
    job = snapshot.job
    launcher = None if job is None else presence(job.host, job.pid, job.time, job.started)
    judged = judge(snapshot, there, launcher, time.time())
    return dataclasses.replace(judged, metrics=last_metrics(snapshot.run.metrics_file))
