from __future__ import annotations

import pytest

from tfdist.training.supervision.training_monitor import SECONDS, STEPS, StepMark, StepRate


def paced(*, steps: int, seconds: float, samples: float = 32, waited: float = 0.0, marks: int) -> StepRate:
    """A pace after `marks` marks of so many steps each, with the seconds, samples and waiting of one step."""
    pace = StepRate()
    for i in range(marks):
        done = i * steps
        pace.add(StepMark(done, done * seconds, done * samples, done * waited))
    return pace


@pytest.mark.parametrize("marks", [0, 1])
def test_nothing_is_known_at_first(marks: int) -> None:
    pace = paced(steps=1, seconds=1, marks=marks)
    assert (pace.rate(), pace.busy(), pace.step_seconds()) == (0, 0, 0)


def test_rate_and_own_time_of_a_step() -> None:
    pace = paced(steps=5, seconds=0.5, waited=0.2, marks=4)
    assert pace.rate() == pytest.approx(64)
    assert pace.busy() == pytest.approx(0.3)
    assert pace.step_seconds() == pytest.approx(0.5)


def test_without_waiting_nothing_is_known_of_it() -> None:
    assert paced(steps=5, seconds=0.5, marks=4).busy() == 0


def test_samples_that_nobody_counts_have_no_rate() -> None:
    assert paced(steps=5, seconds=0.5, samples=0, marks=4).rate() == 0


@pytest.mark.parametrize("seconds", [0.001, 0.1, 2.0])
def test_only_the_last_steps_count(seconds: float) -> None:
    """After a slow beginning, of steps that are 100 times as long."""
    pace = StepRate()
    begun = 100 * seconds * STEPS
    pace.add(StepMark(0, 0.0, 0.0, 0.0))
    steps = 0
    while steps * seconds < 2 * SECONDS or steps < 2 * STEPS:
        pace.add(StepMark(STEPS + steps, begun + steps * seconds, 32.0 * (STEPS + steps), 0.0))
        steps += 10
    assert pace.rate() == pytest.approx(32 / seconds)
