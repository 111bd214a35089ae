"""Notes on what Slurm takes from sbatch without a word, though nothing comes of it: jobs held back, and lost logs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from tfdist.bounded_process import run
from tfdist.multihost.slurm.batch_job import BatchJob

_QUERY_SECONDS = 10.0
_UNDECIDED_SECONDS = 3.0
"""Seconds that Slurm may take to say why a job waits."""
_PAUSE_SECONDS = 0.2
_UNDECIDED = frozenset({"None", "(null)", ""})
_ORDINARY = frozenset(
    {"BeginTime", "Cleaning", "Dependency", "JobArrayTaskLimit", "Licenses", "Priority", "Reservation", "Resources"}
)
"""Reasons that pass by themselves, as other jobs end and time goes on."""


def submission_notes(job: BatchJob, number: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Lines for the user of a job that was submitted; none where nothing is to be said.

    Args:
        job: The job.
        number: Its number.
        environ: Of squeue; None for this process's.
    """
    notes = []
    folder = os.path.dirname(os.path.join(job.cwd, job.log_of(number, "")))
    if "%" not in folder and not os.path.isdir(folder):
        notes.append(
            f"there is no directory {folder} here, for its log: where its nodes have none either, it fails without a "
            "word"
        )
    reason = _held_back_by(number, environ)
    if reason:
        notes.append(
            f"Slurm holds it back: {reason}. `sinfo` shows the partitions and their limits, `man squeue` what each "
            "reason means"
        )
    return [f"  note           {note}" for note in notes]


def _held_back_by(number: str, environ: Mapping[str, str] | None) -> str:
    """Returns why a job waits, unless that passes by itself; empty where it does, and where Slurm does not say."""
    deadline = time.monotonic() + _UNDECIDED_SECONDS
    while True:
        state, _, reason = _asked(number, environ).partition(" ")
        if state != "PENDING" or reason.partition(",")[0] in _ORDINARY:
            return ""
        if reason not in _UNDECIDED:
            return reason
        if time.monotonic() > deadline:
            return ""
        time.sleep(_PAUSE_SECONDS)


def _asked(number: str, environ: Mapping[str, str] | None) -> str:
    """The state of a job and why it waits, in one line; empty where Slurm does not say."""
    try:
        done = run(["squeue", "--noheader", "--format=%T %r", f"--jobs={number}"], _QUERY_SECONDS, environ=environ)
    except OSError:
        return ""
    return (done.out.splitlines() or [""])[0].strip() if done.code == 0 else ""
