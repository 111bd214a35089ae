"""Ledgers made by hand."""

from __future__ import annotations

from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry, LedgerEvent, LedgerInterval


def running(attempt: int, at: float, since: float | None = None) -> LedgerEvent:
    return LedgerEvent(attempt, at, AttemptPhase.RUNNING, since)


def over(
    attempt: int, at: float, phase: AttemptPhase = AttemptPhase.DONE, step: int = 0, noticed: float | None = None
) -> LedgerEvent:
    why = "" if phase is AttemptPhase.DONE else "worker 1: killed by SIGKILL"
    return LedgerEvent(attempt, at, phase, why=why, step=step, noticed=noticed)


def did(attempt: int, since: float, at: float, steps: tuple[int, int] = (0, 0), **seconds: float) -> LedgerInterval:
    first, last = steps
    spent = {kind.replace("_", "-"): value for kind, value in seconds.items()}
    return LedgerInterval(attempt, since, at, spent, last - first, last)


def killed_once() -> list[LedgerEntry]:
    """A job of 100 s that is killed at step 60, resumes from step 40 and reaches step 80."""
    return [
        running(0, 2.0, since=0.0),
        did(0, 4.0, 14.0, start_up=10),
        did(0, 14.0, 24.0, compile=10, steps=(0, 1)),
        did(0, 24.0, 44.0, step=18, input=2, steps=(1, 50)),
        over(0, 49.0, AttemptPhase.RESTARTING, step=60, noticed=46.0),
        running(1, 50.0),
        did(1, 52.0, 62.0, start_up=10),
        did(1, 62.0, 72.0, compile=10, steps=(40, 41)),
        did(1, 72.0, 96.0, step=20, evaluation=3, checkpoint=1, steps=(41, 80)),
        over(1, 100.0, step=80),
    ]
