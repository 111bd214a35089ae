"""Rows of a job that runs or has ended, as its workers have noted and recorded them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.launch.recording_request import RecordingRequest
from tfdist.selftest.row_log import RowDone, RowsRun, log_file, read_log, saved_model
from tfdist.selftest.row_runs import RowRun
from tfdist.training.probes.recording_file import Recording


@dataclass(frozen=True)
class JobRows:
    """The rows of a job, as far as its workers have noted.

    Attributes:
        folder: Where they note it.
        workers: How many there are.
        request: What they record; None for nothing.
    """

    folder: Path
    workers: int
    request: RecordingRequest | None

    def names(self) -> list[str]:
        """The rows that all workers have finished until now."""
        logs = [[done.name for done in log.done] for log in self._logs()]
        return [name for name in logs[0] if all(name in log for log in logs)]

    def begun(self) -> str | None:
        """The row that the chief is in; None where it is in none."""
        return self._logs()[0].begun

    def read(self) -> dict[str, RowRun]:
        """What came of the finished rows."""
        logs, names = self._logs(), self.names()
        recordings = [Recording.read(self.request.file(index)) for index in range(self.workers)] if self.request else []
        return {done.name: self._run(done, logs, recordings) for done in logs[0].done if done.name in names}

    def _logs(self) -> list[RowsRun]:
        return [read_log(log_file(self.folder, index)) for index in range(self.workers)]

    def _run(self, done: RowDone, logs: Sequence[RowsRun], recordings: Sequence[Recording | None]) -> RowRun:
        parts = tuple(recording.part(done.fits) for recording in recordings if recording is not None)
        found = tuple(other.found for log in logs for other in log.done if other.name == done.name)
        if recordings and (len(parts) < len(recordings) or not all(part.moments[1:] for part in parts)):
            return RowRun("a worker has no recording of it", seconds=done.seconds)
        return RowRun("", "", done.seconds, parts, found, str(saved_model(self.folder)))
