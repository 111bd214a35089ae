"""Terminal and JSON reports of an account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdist.reports.ledger.account import (
    LABELS,
    PARTS,
    Account,
    AttemptAccount,
    Recovery,
    Seconds,
    endings,
    headlines,
    percent,
    recoveries,
    steps_of,
)
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.text import format_clock, format_count, format_time, printable, table

_BAR = 40
_MOST_ATTEMPTS = 20


def render(name: str, run_dir: str, account: Account) -> str:
    """The whole table, without a newline at its end."""
    lines = [f"{name}: {run_dir}", *headlines(account), "", *_kinds(account)]
    if len(account.attempts) > 1:
        lines += ["", *_attempts(account)]
    recovered = recoveries(account.attempts)
    if recovered:
        lines += ["", "from the notice of a failure to the first step after it, in seconds", *_recoveries(recovered)]
    return "\n".join(map(printable, lines))


def _kinds(account: Account) -> list[str]:
    seconds = account.seconds
    rows = [
        (label, format_clock(seconds[kind]), percent(seconds[kind], account.wall), _bar(seconds[kind], account.wall))
        for kind, label in LABELS.items()
    ]
    head, total = ("where the time went", "time", "share", ""), ("wall time", format_clock(account.wall), "", "")
    return table([head, *rows, total], "lrrl")


def _attempts(account: Account) -> list[str]:
    shown = account.attempts[-_MOST_ATTEMPTS:]
    rows = [
        (
            str(attempt.number),
            format_time(attempt.since),
            format_clock(attempt.at - attempt.since),
            percent(attempt.seconds.get(TimeKind.STEP, 0.0), attempt.at - attempt.since),
            steps_of(attempt),
            ended,
        )
        for attempt, ended in zip(shown, endings(account)[-_MOST_ATTEMPTS:], strict=True)
    ]
    lines = table([("attempt", "started", "wall time", "goodput", "steps", "how it ended"), *rows], "rrrrrl")
    earlier = len(account.attempts) - len(shown)
    return lines if not earlier else [*lines, f"and {format_count(earlier, 'earlier attempt')}; --json has all"]


def _recoveries(recovered: Sequence[Recovery]) -> list[str]:
    rows = [
        (
            str(recovery.attempt),
            f"{recovery.whole:.1f}",
            *(f"{recovery.seconds[part]:.1f}" for part in PARTS),
            f"{recovery.again:,}",
        )
        for recovery in recovered[-_MOST_ATTEMPTS:]
    ]
    return table([("attempt", "all", *PARTS, "steps again"), *rows], "r" * (len(PARTS) + 3))


def _bar(part: float, whole: float) -> str:
    return "#" * round(_BAR * max(0.0, part) / whole) if whole else ""


def to_json(name: str, run_dir: str, account: Account) -> dict[str, Any]:
    """A value that `json.dumps` takes. Times are seconds since 1970 (UTC), durations seconds, goodput 0 to 1."""
    return {
        "run_dir": run_dir,
        "name": name,
        "wall": account.wall,
        "goodput": account.goodput,
        "seconds": _all(account.seconds),
        "steps": account.steps,
        "replayed_steps": account.lost,
        "restarts": account.restarts,
        "away": account.away,
        "damaged_lines": account.damaged,
        "attempts": [_attempt(attempt) for attempt in account.attempts],
        "recoveries": [_recovery(recovery) for recovery in recoveries(account.attempts)],
    }


def _attempt(attempt: AttemptAccount) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "since": attempt.since,
        "at": attempt.at,
        "noticed": attempt.noticed,
        "ended": attempt.ended,
        "seconds": _all(attempt.seconds),
        "begun_at_step": attempt.begun_at,
        "reached_step": attempt.reached,
        "steps": attempt.steps,
        "replayed_steps": attempt.lost,
        "phase": attempt.phase.value,
        "why": attempt.why,
        "restart": not attempt.opens,
    }


def _recovery(recovery: Recovery) -> dict[str, Any]:
    return {
        "attempt": recovery.attempt,
        "seconds": dict(recovery.seconds),
        "whole": recovery.whole,
        "replayed_steps": recovery.again,
    }


def _all(seconds: Seconds) -> dict[str, float]:
    return {kind.value: seconds.get(kind, 0.0) for kind in TimeKind}
