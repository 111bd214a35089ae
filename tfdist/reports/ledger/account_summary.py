"""Summary of an account in words: labels of the kinds of time, headlines, endings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tfdist.reports.ledger.account import Account, AttemptAccount
from tfdist.rundir.ledger_lines import AttemptPhase, TimeKind
from tfdist.text import format_clock, format_count, format_time

LABELS: Mapping[TimeKind, str] = MappingProxyType(
    {
        TimeKind.STEP: "training steps that count",
        TimeKind.INPUT: "waiting for data",
        TimeKind.EVALUATION: "evaluation",
        TimeKind.CHECKPOINT: "waiting for checkpoints and saves",
        TimeKind.CALLBACK: "between epochs: callbacks, data set-up",
        TimeKind.COMPILE: "first batches, which compile",
        TimeKind.RESTORE: "restoring a checkpoint",
        TimeKind.START_UP: "start-up: processes, imports",
        TimeKind.FORMING: "start-up: workers find one another",
        TimeKind.BUILDING: "start-up: data, model",
        TimeKind.RESTART: "lost to restarts",
        TimeKind.REPLAY: "steps done again later",
        TimeKind.OTHER: "other",
    }
)
"""Every kind, in the order in which it is shown, and in words."""


def percent(part: float, whole: float) -> str:
    """`83.1 %`, or `-` when the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def headlines(account: Account) -> list[str]:
    """The wall time, the goodput and what happened, one sentence each."""
    steps = format_count(account.steps, "training step")
    lines = [
        f"goodput {percent(account.goodput, 1)}: {format_clock(account.seconds[TimeKind.STEP])} of "
        f"{format_clock(account.wall)} wall time went into the {steps} that count"
    ]
    starts, restarts = len(account.attempts) - account.restarts, account.restarts
    if len(account.attempts) > 1:
        away = f", {format_clock(account.away)} between them not counted" if starts > 1 else ""
        started = f"{format_count(starts, 'start')} of tfdist train{away}"
        lines.append(f"{started}; {format_count(restarts, 'restart')} by it")
    if account.lost:
        lines.append(f"{format_count(account.lost, 'step')} done again, because they came after the last checkpoint")
    if account.attempts[-1].phase is AttemptPhase.RUNNING:
        lines.append(f"up to {format_time(account.attempts[-1].at)}: the run goes on, or its launcher was killed")
    if account.damaged:
        lines.append(f"{format_count(account.damaged, 'line')} of the ledger cannot be read and count as those around")
    return lines


def endings(account: Account) -> list[str]:
    """Returns how each attempt ended."""
    *earlier, last = account.attempts
    killed = "its launcher was killed"
    return [*(_ending(attempt, killed) for attempt in earlier), _ending(last, f"not yet, or {killed}")]


def _ending(attempt: AttemptAccount, unheard: str) -> str:
    return unheard if attempt.phase is AttemptPhase.RUNNING else attempt.why or attempt.phase.value


def steps_of(attempt: AttemptAccount) -> str:
    """The steps from and to which an attempt trained, and how many of them are done again."""
    if attempt.begun_at is None:
        return "-"
    again = f", {attempt.lost:,} again" if attempt.lost else ""
    return f"{attempt.begun_at:,} to {attempt.reached:,}{again}"
