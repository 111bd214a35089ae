"""The record of where a run went on, and on what: `resumes.jsonl` in its directory."""

from __future__ import annotations

import json
import logging
import time

from tfdist.checkpoint import CheckpointSummary
from tfdist.errors import RunDirError
from tfdist.rundir import RunDir, atomic_files

_log = logging.getLogger("tfdist")


def note_resume(
    run: RunDir, resumed: CheckpointSummary, *, workers: int, replicas: int, attempt: int, fit: int = 0
) -> None:
    """Adds a line to a run's record of where it went on; on the chief. A disk that is full costs the line alone.

    Args:
        run: The run directory.
        resumed: The checkpoint that it goes on from.
        workers: Those that train from now on.
        replicas: Theirs.
        attempt: Starts of the run before this one.
        fit: Which `fit` of a script, from 0.
    """
    line = {
        "time": time.time(),
        "attempt": attempt,
        "fit": fit,
        "epoch": resumed.epoch,
        "step": resumed.step,
        "total": resumed.total,
        "workers": workers,
        "replicas": replicas,
        "workers_before": resumed.workers,
        "replicas_before": resumed.replicas,
    }
    try:
        atomic_files.write_text(run.resumes_file, _before(run) + json.dumps(line) + "\n", durable=False)
    except (RunDirError, OSError, ValueError) as error:
        _log.warning("%s is not kept up: %s", run.resumes_file, error)


def _before(run: RunDir) -> str:
    """The lines that there are; what cannot be read must not be replaced."""
    try:
        return run.resumes_file.read_text()
    except FileNotFoundError:
        return ""


def change_of(resumed: CheckpointSummary, replicas: int) -> str:
    """What changed since a checkpoint was made, for the line that says where a training goes on; mostly nothing."""
    return "" if resumed.replicas == replicas else f", which was on {resumed.replicas} replicas"
