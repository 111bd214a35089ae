"""JSON of an account."""

from __future__ import annotations

from typing import Any

from tfdist.reports.ledger.account import Account, AttemptAccount, Seconds
from tfdist.reports.ledger.recovery import Recovery, recoveries
from tfdist.rundir.ledger_lines import TimeKind


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
