"""Reader of a run's status: reads the run directory, looks for its processes, judges."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from tfdist.reports.epoch_metrics import last_metrics
from tfdist.reports.status.run_status import RunStatus, judge
from tfdist.rundir.layout import RunDir
from tfdist.rundir.process_presence import presence
from tfdist.rundir.run_snapshot import read_run


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
