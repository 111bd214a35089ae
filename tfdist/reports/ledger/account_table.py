"""The account of a run as people read it on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tfdist.reports.ledger.account import Account
from tfdist.reports.ledger.account_summary import LABELS, clock, endings, headlines, moment, percent, steps_of
from tfdist.reports.ledger.recovery import PARTS, Recovery, recoveries
from tfdist.rundir.ledger_lines import TimeKind

_BAR = 40
_MOST_ATTEMPTS = 20
_LEFT = ("where the time went", "", "how it ended")
"""Columns that begin at the left; numbers end at the right."""


def render(name: str, run_dir: str, account: Account) -> str:
    """The whole table, without a newline at its end."""
    lines = [f"{name}: {run_dir}", *headlines(account), "", *_kinds(account)]
    if len(account.attempts) > 1:
        lines += ["", *_attempts(account)]
    recovered = recoveries(account.attempts)
    if recovered:
        lines += ["", "from the notice of a failure to the first step after it, in seconds", *_recoveries(recovered)]
    return "\n".join("".join(letter if letter.isprintable() else "?" for letter in line).rstrip() for line in lines)


def _kinds(account: Account) -> list[str]:
    seconds = account.seconds
    rows = [
        (label, clock(seconds[kind]), percent(seconds[kind], account.wall), _bar(seconds[kind], account.wall))
        for kind, label in LABELS.items()
    ]
    return _aligned([("where the time went", "time", "share", ""), *rows, ("wall time", clock(account.wall), "", "")])


def _attempts(account: Account) -> list[str]:
    shown = account.attempts[-_MOST_ATTEMPTS:]
    rows = [
        (
            str(attempt.number),
            moment(attempt.since),
            clock(attempt.at - attempt.since),
            percent(attempt.seconds.get(TimeKind.STEP, 0.0), attempt.at - attempt.since),
            steps_of(attempt),
            ended,
        )
        for attempt, ended in zip(shown, endings(account)[-_MOST_ATTEMPTS:], strict=True)
    ]
    lines = _aligned([("attempt", "begun", "wall time", "goodput", "steps", "how it ended"), *rows])
    earlier = len(account.attempts) - len(shown)
    return lines if not earlier else [*lines, f"and {earlier} before; --json has all"]


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
    return _aligned([("attempt", "all", *PARTS, "steps again"), *rows])


def _bar(part: float, whole: float) -> str:
    return "#" * round(_BAR * max(0.0, part) / whole) if whole else ""


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = [name in _LEFT for name in rows[0]]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        )
        for row in rows
    ]
