from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdist.training.config_run.input_wait import InputWait, InputWaitClock, idle_seconds


def test_a_stretch_ends_with_its_last_step() -> None:
    waited: Iterator[float] = iter([1.0, 1.0, 1.5])
    now: Iterator[float] = iter([0.0, 10.0, 12.0, 14.0, 18.0])
    idle: Iterator[float] = iter([0.0, 100.0, 106.0])
    cpu: Iterator[float] = iter([0.0, 5.0, 8.0, 11.0])
    clock = InputWaitClock(lambda: next(waited), lambda: next(now), lambda: next(cpu), lambda: next(idle))
    clock.begin()
    clock.step()
    clock.step()
    # What is idle is known of the time until the end alone, not of that until the last step.
    assert clock.end() == InputWait(seconds=4.0, waited=0.5, busy=1.5, free=0.75)


@pytest.mark.parametrize("known", [(1.0, None), (None, 1.0), (None, None)])
def test_a_machine_that_does_not_say_what_is_idle(known: tuple[float | None, float | None]) -> None:
    before, after = known
    idle = iter([before, before, after])
    clock = InputWaitClock(lambda: 0.0, iter(range(100)).__next__, lambda: 0.0, lambda: next(idle))
    clock.begin()
    clock.step()
    assert clock.end().free == math.inf


def test_the_idle_time_of_the_machine(tmp_path: Path) -> None:
    file = tmp_path / "stat"
    ticks = os.sysconf("SC_CLK_TCK")
    file.write_text(f"cpu  1 2 3 {40 * ticks} {2 * ticks} 0 0 0 0 0\ncpu0 1 2 3 4 5\n")
    assert idle_seconds(file) == 42
    for content in ("", "cpu 1 2", "cpu a b c d e f"):
        file.write_text(content)
        assert idle_seconds(file) is None
    assert idle_seconds(tmp_path / "none") is None


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
