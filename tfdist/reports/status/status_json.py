"""JSON of the status of a run, and of the runs in a folder."""

from __future__ import annotations

import math
from typing import Any

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics
from tfdist.reports.status.run_list import RunList, epoch_of, steps_of
from tfdist.reports.status.run_status import RunStatus, WorkerStatus

_FAILURE = ("index", "host", "time", "kind", "message", "pid", "exit_code", "type", "epoch", "step", "log")
"""The fields of a `Failure` that are shown: neither tracebacks nor the end of the log."""


def to_json(status: RunStatus) -> dict[str, Any]:
    """A value that `json.dumps` takes. Times are seconds since 1970 (UTC), durations seconds; epochs count from 0."""
    snapshot = status.snapshot
    return {
        "run_dir": str(snapshot.run),
        "name": snapshot.name,
        "created": snapshot.created,
        "time": status.now,
        "status": status.condition.value,
        "over": status.condition.is_over,
        "attempt": status.attempt,
        "reason": status.reason,
        "failure": None if status.failure is None else {name: getattr(status.failure, name) for name in _FAILURE},
        "metrics": metrics_json(status.metrics),
        "workers": [_worker(row) for row in status.rows],
        "unreadable": [{"index": index, "why": why} for index, why in snapshot.unreadable.items()],
        "absent": list(snapshot.absent),
    }


def list_to_json(found: RunList) -> dict[str, Any]:
    """The runs of a folder, the newest first, as `to_json` has each, without its workers."""
    return {
        "folder": str(found.folder),
        "time": found.now,
        "over": found.is_over,
        "runs": [_listed(run) for run in found.runs],
        "unreadable": [{"run_dir": str(path), "why": why} for path, why in found.unreadable.items()],
    }


def _listed(run: RunStatus) -> dict[str, Any]:
    document = to_json(run)
    left = {name: value for name, value in document.items() if name not in ("time", "workers", "unreadable", "absent")}
    return {**left, "epoch": epoch_of(run), "step": steps_of(run)}


def metrics_json(metrics: EpochMetrics | None) -> dict[str, Any] | None:
    """The metrics of an epoch; null for what is no finite number, which JSON lacks."""
    if metrics is None:
        return None
    values = {name: value if math.isfinite(value) else None for name, value in metrics.values.items()}
    return {"epoch": metrics.epoch, "time": metrics.time, "values": values}


def _worker(row: WorkerStatus) -> dict[str, Any]:
    lag = row.lag if row.is_straggling else None
    return {
        **row.state.to_dict(),
        "process": row.presence.value,
        "quiet": row.quiet,
        "silent": row.silent,
        "straggler": None if lag is None else {"slower": lag.slower, "cost": lag.cost, "others": lag.others},
        "remarks": list(row.remarks),
    }
