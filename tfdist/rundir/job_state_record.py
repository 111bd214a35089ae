"""The record of a job's state, which its launcher writes."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.rundir.json_record import JsonRecord, is_finite


@dataclass(frozen=True)
class JobState(JsonRecord):
    """The phase that a job is in, as the run directory's `job_file` has it.

    Attributes:
        phase: A value of `tfdist.launch.job_phases.JobPhase`.
        attempt: Which start of the workers this is, from 0.
        host: The machine of the launcher that writes it.
        pid: That launcher's process id.
        time: When it was written, in seconds since 1970 (UTC).
        started: When that process started, by `process_presence.start_ticks`; None where unknown.
    """

    phase: str
    attempt: int
    host: str
    pid: int
    time: float
    started: int | None = None

    def check(self) -> None:
        are_texts = isinstance(self.phase, str) and isinstance(self.host, str)
        counts = (self.pid, self.attempt, *(() if self.started is None else (self.started,)))
        if not are_texts or not all(isinstance(count, int) for count in counts):
            raise ValueError("expected texts for the phase and the host, and whole numbers for the rest")
        if self.attempt < 0 or not is_finite(self.time):
            raise ValueError("expected an attempt from 0 and a time")
