"""What restarts took, from the notice of a failure to the first step after it."""

from __future__ import annotations

import pytest

from tests.helpers.ledger_lines import did, killed_once, over, running
from tfdist.reports.ledger.account import PARTS, Recovery, recoveries
from tfdist.reports.ledger.account_reader import build_account
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry

FAILED = [running(0, 2.0, 0.0), did(0, 5.0, 9.0, step=4, steps=(0, 10))]


def found(entries: list[LedgerEntry]) -> tuple[Recovery, ...]:
    made = build_account(entries)
    assert made is not None
    return recoveries(made.attempts)


def test_the_parts_of_a_restart() -> None:
    """It was noticed at 46 s, the workers had ended at 49 s and started at 50 s; the first step was done at 72 s."""
    (recovery,) = found(killed_once())
    assert (recovery.attempt, recovery.again, recovery.whole) == (1, 20, 26.0)
    assert tuple(recovery.seconds) == PARTS
    spent = {part: seconds for part, seconds in recovery.seconds.items() if seconds}
    assert spent == {"ending": 3.0, "delay": 1.0, "start-up": 12.0, "compile": 10.0}


def test_the_interval_of_the_first_step_may_have_further_steps() -> None:
    entries = [*FAILED, over(0, 12.0, AttemptPhase.RESTARTING, step=12, noticed=11.0), running(1, 13.0)]
    entries.append(did(1, 13.0, 33.0, start_up=4, forming=1, building=2, restore=3, compile=5, step=4, input=1,
                       steps=(10, 40)))  # fmt: skip
    (recovery,) = found(entries)
    assert list(recovery.seconds.values()) == [1.0, 1.0, 4.0, 1.0, 2.0, 3.0, 5.0, 0.0]
    assert (recovery.whole, recovery.again) == (17.0, 2)


def test_lost_steps_of_a_restart_without_a_step_count_for_the_next() -> None:
    entries = [
        *FAILED,
        over(0, 12.0, AttemptPhase.RESTARTING, step=12),
        running(1, 13.0),
        over(1, 15.0, AttemptPhase.RESTARTING),
    ]
    entries += [running(2, 17.0), did(2, 17.0, 20.0, compile=3, steps=(8, 9))]
    (recovery,) = found(entries)
    assert (recovery.attempt, recovery.again, recovery.whole) == (2, 4, 5.0)


@pytest.mark.parametrize("noticed", [None, 13.5])
def test_an_unknown_or_late_notice_takes_no_time(noticed: float | None) -> None:
    entries = [*FAILED, over(0, 12.0, AttemptPhase.RESTARTING, noticed=noticed), running(1, 13.0)]
    (recovery,) = found([*entries, did(1, 14.0, 16.0, compile=2, steps=(10, 11))])
    assert recovery.seconds["ending"] == 0.0 and recovery.whole == 4.0


@pytest.mark.parametrize(
    "entries",
    [
        FAILED,
        # It has come to no step, yet or at all.
        [*FAILED, over(0, 12.0, AttemptPhase.RESTARTING), running(1, 13.0), did(1, 14.0, 16.0, start_up=2)],
        # By hand.
        [
            *FAILED,
            over(0, 12.0, AttemptPhase.FAILED),
            running(1, 113.0, 112.0),
            did(1, 114.0, 116.0, step=2, steps=(0, 5)),
        ],
    ],
)
def test_attempts_that_are_no_recoveries(entries: list[LedgerEntry]) -> None:
    assert found(entries) == ()
