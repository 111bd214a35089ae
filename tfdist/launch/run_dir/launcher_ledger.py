"""The launcher's part of the run's ledger: when each attempt started, and how it ended."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.run_result import RunResult
from tfdist.rundir import ledger_lines
from tfdist.rundir.ledger_lines import AttemptPhase

_MAX_CHARACTERS = 300


class LauncherLedger:
    """Writes the start and the end of each attempt into the ledger. A disk that cannot be written is passed over.

    Args:
        file: The ledger; None for a launcher without the chief, which writes nothing.
        begun: When the job began, in seconds since 1970 (UTC); None where it goes on with one that is in the ledger.
    """

    def __init__(self, file: Path | None, begun: float | None) -> None:
        self._file = file
        self._begun = begun
        self._attempt = 0

    def running(self, attempt: int) -> None:
        """The workers of attempt number `attempt` are about to start."""
        self._attempt = attempt
        begun, self._begun = self._begun, None
        self._write(AttemptPhase.RUNNING, since=begun)

    def restarting(self, result: RunResult) -> None:
        """The attempt has ended, and there is another one."""
        self._write_end(AttemptPhase.RESTARTING, result)

    def over(self, result: RunResult) -> None:
        """The job has ended."""
        phase = AttemptPhase.STOPPED if result.stop else AttemptPhase.FAILED if result.failures else AttemptPhase.DONE
        self._write_end(phase, result, result.code)

    def _write_end(self, phase: AttemptPhase, result: RunResult, code: int | None = None) -> None:
        noticed = result.failures[0].time if result.failures else None
        self._write(phase, why=_why(result), step=result.step, noticed=noticed, code=code)

    def _write(self, phase: AttemptPhase, **more: Any) -> None:
        if self._file is not None:
            with contextlib.suppress(RunDirError):
                ledger_lines.append_entry(
                    self._file, ledger_lines.LedgerEvent(self._attempt, time.time(), phase, **more)
                )


def _why(result: RunResult) -> str:
    """Returns what ended an attempt, in one line; empty when its workers were done."""
    if result.stop is not None:
        return result.stop.why
    if not result.failures:
        return ""
    first = result.failures[0]
    return f"worker {first.index}: {first.what_in_line()}"[:_MAX_CHARACTERS]
