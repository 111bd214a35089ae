from __future__ import annotations

import pytest

from tests.helpers.ledger_lines import did, killed_once, over, running
from tfdist.reports.ledger.account import Account, headlines, recoveries
from tfdist.reports.ledger.account_reader import build_account
from tfdist.rundir.ledger_lines import AttemptPhase, LedgerEntry, TimeKind


def found(entries: list[LedgerEntry]) -> Account:
    made = build_account(entries)
    assert made is not None
    return made


def spent(made: Account) -> dict[str, float]:
    return {kind.value: pytest.approx(seconds) for kind, seconds in made.seconds.items() if seconds}


def test_a_checkpoint_tells_how_far_a_killed_attempt_had_come() -> None:
    lines = [running(0, 2.0, 0.0), did(0, 2.0, 9.0, step=1, steps=(0, 1)), running(1, 20.0, 19.0)]
    lines += [did(1, 20.0, 29.0, step=9, steps=(407, 1200)), over(1, 30.0, step=1200)]
    made = build_account(lines, resumed={1: 407})
    assert made is not None
    assert [(attempt.begun_at, attempt.reached) for attempt in made.attempts] == [(0, 407), (407, 1200)]
    assert (made.steps, made.lost) == (1200, 0)


FIT = did(0, 5.0, 9.0, compile=1, step=3, steps=(0, 10))


@pytest.mark.parametrize(
    ("entries", "seconds", "goodput"),
    [
        # From the job's begin to the chief's first word, and from its last one to the job's end.
        ([running(0, 2.0, 0.0), FIT, over(0, 10.0)], {"start-up": 5, "compile": 1, "step": 3, "other": 1}, 0.3),
        # It goes on, or nobody could say how it ended.
        ([running(0, 2.0, 0.0), FIT], {"start-up": 5, "compile": 1, "step": 3}, 3 / 9),
        ([running(0, 2.0, 0.0)], {"start-up": 2}, 0.0),
        # What the chief could not write any more is lost.
        (
            [running(0, 2.0, 0.0), FIT, over(0, 10.0, AttemptPhase.FAILED)],
            {"start-up": 5, "compile": 1, "step": 3, "restart": 1},
            0.3,
        ),
        (
            [running(0, 2.0, 0.0), FIT, over(0, 10.0, AttemptPhase.STOPPED)],
            {"start-up": 5, "compile": 1, "step": 3, "other": 1},
            0.3,
        ),
        # A start that came to nothing.
        (
            [running(0, 2.0, 0.0), over(0, 6.0, AttemptPhase.RESTARTING), running(1, 7.0)],
            {"start-up": 2, "restart": 5},
            0.0,
        ),
        # The time between two starts by hand is nobody's.
        (
            [
                running(0, 2.0, 0.0),
                FIT,
                over(0, 10.0, AttemptPhase.STOPPED),
                running(1, 1002.0, 1000.0),
                over(1, 1004.0),
            ],
            {"start-up": 7, "compile": 1, "step": 3, "other": 3},
            3 / 14,
        ),
        # A launcher that was killed: its job ends with the chief's last word.
        (
            [running(0, 2.0, 0.0), FIT, running(1, 1002.0, 1000.0), over(1, 1004.0)],
            {"start-up": 7, "compile": 1, "step": 3, "other": 2},
            3 / 13,
        ),
        # A gap between two lines, such as one that a full disk has swallowed.
        (
            [running(0, 2.0, 0.0), FIT, did(0, 14.0, 15.0, step=1, steps=(25, 30)), over(0, 15.0)],
            {"start-up": 5, "compile": 1, "step": 4, "other": 5},
            4 / 15,
        ),
        # A line that does not add up, and a clock that was set back, leave the sum right.
        (
            [running(0, 2.0, 0.0), FIT, did(0, 9.0, 11.0, step=1), did(0, 10.0, 12.0, step=2), over(0, 11.5)],
            {"start-up": 5, "compile": 1, "step": 5, "other": 1},
            5 / 12,
        ),
        # A line of no time, such as one at an end that comes right behind another.
        ([running(0, 2.0, 0.0), did(0, 2.0, 2.0), did(0, 2.0, 10.0, step=8)], {"start-up": 2, "step": 8}, 0.8),
        # What another attempt's chief still had to say comes too late.
        ([running(1, 2.0, 0.0), FIT, over(1, 10.0)], {"start-up": 2, "other": 8}, 0.0),
    ],
)
def test_every_second_has_one_place(entries: list[LedgerEntry], seconds: dict[str, float], goodput: float) -> None:
    made = found(entries)
    assert spent(made) == seconds
    assert sum(made.seconds.values()) == pytest.approx(made.wall)
    assert made.goodput == pytest.approx(goodput)


def test_steps_done_again_are_no_goodput() -> None:
    made = found(killed_once())
    # 49 steps took 18 s, of which those after step 40 were done again, and ten more that no line tells of.
    replayed = 18 * 10 / 49
    assert spent(made) == {
        "step": 38 - replayed,
        "replay": replayed,
        "input": 2,
        "evaluation": 3,
        "checkpoint": 1,
        "compile": 20,
        "start-up": 4 + 10 + 2 + 10,
        "restart": 6,
        "other": 4,
    }
    first, second = made.attempts
    assert (first.begun_at, first.reached, first.lost) == (0, 60, 20)
    assert (second.begun_at, second.reached, second.lost) == (40, 80, 0)
    assert (made.steps, made.lost, made.restarts, made.wall) == (80, 20, 1, 100.0)


def test_goodput_is_zero_when_every_step_was_done_again() -> None:
    """And not a little less, which would read -0.0 %: 0.1 * 3 / 3 is more than 0.1."""
    entries = [running(0, 0.0, 0.0), did(0, 0.0, 1.0, step=0.1, steps=(0, 3)), over(0, 1.0, AttemptPhase.RESTARTING)]
    made = found([*entries, running(1, 1.0), did(1, 1.0, 2.0, compile=1, steps=(0, 1))])
    assert (made.goodput, made.seconds[TimeKind.REPLAY]) == (0.0, 0.1)
    assert headlines(made)[0].startswith("goodput 0.0 %: ")


def test_an_attempt_that_starts_over_loses_all_earlier_steps() -> None:
    entries = [*killed_once(), running(2, 201.0, 200.0), did(2, 201.0, 211.0, step=10, steps=(0, 5))]
    made = found(entries)
    assert [attempt.lost for attempt in made.attempts] == [60, 40, 0]
    assert (made.steps, made.seconds[TimeKind.STEP], made.away) == (5, pytest.approx(10.0), 100.0)


def test_a_ledger_without_a_start() -> None:
    assert build_account([]) is None
    assert build_account([FIT, over(0, 3.0)]) is None


def test_a_long_run_has_an_account_of_bounded_size() -> None:
    """Sums, steps and what a restart took are those of one with every line for itself."""
    entries: list[LedgerEntry] = [running(0, 2.0, since=0.0), did(0, 2.0, 4.0, compile=2), did(0, 4.0, 5.0, compile=1)]
    now, step = 5.0, 0
    for number in range(1000):
        spent = {"step": 4.0, "input": 1.0} if number % 7 else {"evaluation": 5.0}
        steps = 20 if number % 7 else 0
        entries.append(did(0, now, now + 5.0, steps=(step, step + steps), **spent))
        now, step = now + 5.0 + number % 3, step + steps
    entries += [over(0, now, AttemptPhase.RESTARTING, step=step), running(1, now + 1.0)]
    entries.append(did(1, now + 1.0, now + 9.0, compile=2, step=6, steps=(step - 200, step)))
    whole = found(entries)
    made = build_account(entries, max_spans=64)
    assert made is not None
    assert len(made.attempts[0].spans) <= 65 < len(whole.attempts[0].spans)
    # Where steps are done again, their time is that of the lines that were laid together.
    assert made.seconds == pytest.approx(whole.seconds, rel=0.03)
    assert sum(made.seconds.values()) == pytest.approx(made.wall) and made.wall == pytest.approx(whole.wall)
    for one, other in zip(made.attempts, whole.attempts, strict=True):
        assert (one.begun_at, one.reached, one.lost, one.at) == (other.begun_at, other.reached, other.lost, other.at)
    assert recoveries(made.attempts) == recoveries(whole.attempts)
