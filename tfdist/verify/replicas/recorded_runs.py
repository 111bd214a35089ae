"""Recorded runs of the target: each is an ordinary job that also writes down what is compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tfdist.launch.job import run_job
from tfdist.launch.recording_request import RecordingRequest
from tfdist.rundir import RunDir
from tfdist.training.probes.recording_file import Recording
from tfdist.verify.log_tail import last_line
from tfdist.verify.replicas.variants import Variant
from tfdist.verify.replicas.verify_spec import VerifySpec


@dataclass(frozen=True)
class RecordedRun:
    """Outcome of one run.

    Attributes:
        code: Its exit code.
        recordings: One a worker, the chief's first; empty when the job failed, or when a worker has none with a step.
        idle: The workers without a recorded step.
        last_line: Of the chief's log, when the job failed; empty where it has none.
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


def run_variant(spec: VerifySpec, variant: Variant, folder: Path) -> RecordedRun:
    """Runs a variant to its last recorded step.

    Args:
        spec: The target and the options.
        variant: The run.
        folder: An existing folder, for the run directory and the recordings.

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
        variant.precision,
        variant.perturbed,
    )
    jit = {} if variant.jit_compile is None else {"jit": "on" if variant.jit_compile else "off"}
    job = spec.job(
        variant.workers,
        folder / name,
        communication=variant.communication,
        compression=variant.compression,
        recording=request,
        **jit,
    )
    code = run_job(job)
    if code:
        return RecordedRun(code, last_line=last_line(RunDir(folder / name).log_file(0, 0)))
    read = [Recording.read(request.file(index)) for index in range(variant.workers)]
    idle = tuple(index for index, recording in enumerate(read) if recording is None or not recording.moments[1:])
    return RecordedRun(code, () if idle else tuple(recording for recording in read if recording is not None), idle)
