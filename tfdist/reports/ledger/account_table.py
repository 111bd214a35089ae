"""Terminal report of an account."""

from __future__ import annotations

from collections.abc import Sequence

from tfdist.reports.ledger.account import Account
from tfdist.reports.ledger.account_summary import LABELS, endings, headlines, percent, steps_of
from tfdist.reports.ledger.recovery import PARTS, Recovery, recoveries
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
