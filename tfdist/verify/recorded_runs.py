"""Runs the target once more, as an ordinary job that is recorded."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tfdist.launch.job import run_job
from tfdist.launch.logs.tf_log_filter import is_tf_log_line
from tfdist.launch.recording_request import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.training.probes.recording_file import Recording
from tfdist.verify.verify_spec import Variant, VerifySpec

_END_BYTES = 1 << 20
"""Of a log, in which its last line is looked for: the log of a long run does not fit into the memory."""


@dataclass(frozen=True)
class RecordedRun:
    """What came of one run.

    Attributes:
        code: Its exit code.
        recordings: One a worker, the chief's first; empty when the job failed, or when a worker has none with a step.
        idle: Those workers.
        last_line: The end of the chief's log, of a job that did not go well; empty where it has none.
    """

    code: int
    recordings: tuple[Recording, ...] = ()
    idle: tuple[int, ...] = ()
    last_line: str = ""

    @property
    def problem(self) -> str | None:
        """Why there is nothing to compare, or None."""
        if self.code:
            said = f" ({self.last_line})" if self.last_line else ""
            return f"The run ended with exit code {self.code}{said}"
        if self.idle and 0 not in self.idle:
            workers = ", ".join(map(str, self.idle))
            return f"Worker(s) {workers} never called fit, or fit had no step there, so there is nothing to compare"
        if not self.recordings:
            return "The target never called fit, or fit had no step, so there is nothing to compare"
        return None


def run(spec: VerifySpec, variant: Variant, folder: Path) -> RecordedRun:
    """Runs a variant to its last recorded step.

    Args:
        spec: What is run.
        variant: How.
        folder: Exists; the run directory and the recordings are made below it.

    Raises:
        TfdistError: The job could not be started.
    """
    name = re.sub(r"[^a-z0-9]+", "-", variant.label.lower())
    recordings = folder / "recordings" / name
    recordings.mkdir(parents=True)
    request = RecordingRequest(
        str(recordings.absolute()),
        spec.steps,
        variant.replicas,
        variant.jit_compile,
        variant.precision,
        variant.nudged,
    )
    job = spec.job(variant.workers, folder / name, communication=variant.communication, recording=request)
    code = run_job(job)
    if code:
        return RecordedRun(code, last_line=last_line(RunDir(folder / name).log_file(0, 0)))
    read = [Recording.read(request.file(index)) for index in range(variant.workers)]
    idle = tuple(index for index, recording in enumerate(read) if recording is None or not recording.moments[1:])
    return RecordedRun(code, () if idle else tuple(recording for recording in read if recording is not None), idle)


def last_line(log: Path) -> str:
    """What a worker said last, which of a script that ends itself is why; empty where it has no log."""
    try:
        with log.open("rb") as file:
            skipped = max(0, file.seek(0, os.SEEK_END) - _END_BYTES)
            file.seek(skipped)
            lines = file.read(_END_BYTES).splitlines()
    except OSError:
        return ""
    whole = lines[1:] if skipped and len(lines) > 1 else lines
    said = [line for line in whole if line.strip() and not is_tf_log_line(line)]
    return said[-1].decode(errors="replace").strip() if said else ""
