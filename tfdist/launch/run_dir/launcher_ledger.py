"""The launcher's part of the run's ledger: when the workers of an attempt were started, and how it ended."""

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
    """Writes the turns of a job into its ledger. A disk that takes nothing must not end the job.

    Args:
        file: The ledger; None for a launcher without the chief, which writes nothing.
        begun: When the job began, in seconds since 1970 (UTC).
    """

    def __init__(self, file: Path | None, begun: float) -> None:
        self._file = file
        self._begun: float | None = begun
        self._attempt = 0

    def running(self, attempt: int) -> None:
        """The workers of attempt number `attempt` are about to be started."""
        self._attempt = attempt
        begun, self._begun = self._begun, None
        self._write(AttemptPhase.RUNNING, since=begun)

    def restarting(self, outcome: RunResult) -> None:
        """The attempt has ended, and there is another one."""
        self._write_end(AttemptPhase.RESTARTING, outcome)

    def over(self, outcome: RunResult) -> None:
        """The job has ended."""
        phase = AttemptPhase.STOPPED if outcome.stop else AttemptPhase.FAILED if outcome.failures else AttemptPhase.DONE
        self._write_end(phase, outcome)

    def _write_end(self, phase: AttemptPhase, outcome: RunResult) -> None:
        noticed = outcome.failures[0].time if outcome.failures else None
        self._write(phase, why=_why(outcome), step=outcome.step, noticed=noticed)

    def _write(self, phase: AttemptPhase, **more: Any) -> None:
        if self._file is not None:
            with contextlib.suppress(RunDirError):
                ledger_lines.append_entry(
                    self._file, ledger_lines.LedgerEvent(self._attempt, time.time(), phase, **more)
                )


def _why(outcome: RunResult) -> str:
    """What ended an attempt, in one line; empty when it came to its end."""
    if outcome.stop is not None:
        return outcome.stop.why
    if not outcome.failures:
        return ""
    first = outcome.failures[0]
    return f"worker {first.index}: {first.what_in_line()}"[:_MAX_CHARACTERS]
