from __future__ import annotations

import pytest

from tfdist.launch.peers import silence
from tfdist.launch.peers.silence import Silence


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(silence, "MOST_SECONDS", 10.0)
    return [100.0]


def pass_seconds(clock: list[float], silent: Silence[str], seconds: int) -> list[str]:
    """As a launcher does that looks every half a second."""
    for _ in range(2 * seconds):
        clock[0] += 0.5
        found = silent.look()
    return found


def test_one_that_says_nothing_for_too_long_is_found(clock: list[float]) -> None:
    silent = Silence(["a", "b"], lambda: clock[0])
    assert pass_seconds(clock, silent, 8) == []
    silent.hear("b")
    assert pass_seconds(clock, silent, 3) == ["a"]
    assert pass_seconds(clock, silent, 8) == ["a", "b"]
    silent.hear_all()
    assert silent.look() == []


def test_time_in_which_this_process_was_stopped_is_no_silence(clock: list[float]) -> None:
    silent = Silence(["a"], lambda: clock[0])
    clock[0] += 3600
    assert silent.look() == []
    assert pass_seconds(clock, silent, 8) == []


def test_it_is_time_to_speak_every_few_seconds(clock: list[float]) -> None:
    silent = Silence(["a"], lambda: clock[0])
    said = []
    for second in range(16):
        said += [second] * silent.is_time_to_speak()
        clock[0] += 1
    assert said == [5, 10, 15]
