"""Statuses of runs, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfdist.reports.status.run_status import RunStatus, judge
from tfdist.rundir import RunDir, State, WorkerState
from tfdist.rundir.failure import Failure
from tfdist.rundir.process_presence import Presence
from tfdist.rundir.run_snapshot import Snapshot
from tfdist.rundir.state_records import JobState

NOW = 10_000.0
FAILURE = Failure(
    index=1,
    host="h1",
    time=NOW - 50,
    kind="exception",
    message="no\nsample",
    type="ValueError",
    pid=101,
    epoch=2,
    step=418,
    log="/r/logs/worker-1.0.log",
)


def worker(index: int, *, ago: float = 1.0, moved: float | None = None, **changed: Any) -> WorkerState:
    """A worker whose state was written `ago` seconds before now, whose last progress was `moved` seconds before now."""
    fields: dict[str, Any] = {
        "address": f"h{index}:20000",
        "host": f"h{index}",
        "pid": 100 + index,
        "attempt": 0,
        "state": State.STEP,
        "epoch": 2,
        "step": 418,
        "limit": 600.0,
        "rate": 12031.4,
        "busy": 0.1,
    }
    return WorkerState(
        index=index, time=NOW - ago, moved=NOW - (ago if moved is None else moved), **{**fields, **changed}
    )


def snapshot(*workers: WorkerState, phase: str | None = "running", attempt: int = 0, **changed: Any) -> Snapshot:
    job = None if phase is None else JobState(phase, attempt, "h0", 99, NOW - 100)
    fields: dict[str, Any] = {
        "name": "digits",
        "created": NOW - 7500,
        "job": job,
        "unreadable": {},
        "absent": (),
        "failure": None,
        "earlier": {},
    }
    return Snapshot(run=RunDir(Path("/r")), workers=workers, **{**fields, **changed})


def status(
    *workers: WorkerState,
    presences: dict[int, Presence] | Presence = Presence.ALIVE,
    launcher: Presence | None = Presence.ALIVE,
    now: float = NOW,
    **changed: Any,
) -> RunStatus:
    if isinstance(presences, Presence):
        presences = {worker.index: presences for worker in workers}
    return judge(snapshot(*workers, **changed), presences, launcher, now)
