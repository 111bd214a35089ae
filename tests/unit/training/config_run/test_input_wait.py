from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfdist.training.config_run.input_wait import InputWait, InputWaitClock


def test_a_stretch_ends_with_its_last_step() -> None:
    waited: Iterator[float] = iter([1.0, 1.0, 1.5])
    now: Iterator[float] = iter([0.0, 10.0, 12.0, 14.0])
    cpu: Iterator[float] = iter([0.0, 5.0, 8.0, 11.0])
    clock = InputWaitClock(lambda: next(waited), lambda: next(now), lambda: next(cpu))
    clock.begin()
    clock.step()
    clock.step()
    assert clock.end() == InputWait(seconds=4.0, waited=0.5, busy=1.5)


@pytest.mark.parametrize(
    ("wait", "share"),
    [(InputWait(4.0, 1.0, 1.0), 0.25), (InputWait(1.0, 1.1, 1.0), 1.0), (InputWait(0.0, 0.0, 0.0), 0.0)],
)
def test_the_part_that_waited(wait: InputWait, share: float) -> None:
    assert wait.share == share


@pytest.mark.parametrize(
    ("seconds", "waited", "much"), [(20.0, 2.5, True), (20.0, 1.5, False), (1.0, 0.9, False), (2.0, 1.1, True)]
)
def test_what_is_worth_a_remedy(seconds: float, waited: float, much: bool) -> None:
    assert InputWait(seconds, waited, 1.0).is_much is much
