"""Reports of a run's progress, from a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tfdist.launch.run_progress import RunProgress
from tfdist.rundir import State
from tfdist.training.config_run.run_config import reporting


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, Any] | None] = []
        self.heard = threading.Event()

    def __call__(self, told: Mapping[str, Any] | None) -> None:
        self.told.append(told)
        self.heard.set()


NOW = RunProgress(State.STEP, 0, 1, 5)


def test_progress_is_told_while_it_runs_and_its_end_last() -> None:
    listener = Listener()
    with reporting(lambda: NOW, listener, seconds=0.001):
        assert listener.heard.wait(60)
    *told, last = listener.told
    assert last is None
    assert [RunProgress.from_dict(each) for each in told] == [NOW] * len(told)
    assert not [thread for thread in threading.enumerate() if thread.name == "tfdist-progress"]


def test_a_short_training_is_told_once() -> None:
    listener = Listener()
    with reporting(lambda: NOW, listener, seconds=60):
        pass
    assert listener.told == [NOW.to_dict(), None]


def test_a_training_that_fails_has_ended_too() -> None:
    listener = Listener()
    with pytest.raises(ValueError, match="boom"), reporting(lambda: None, listener, seconds=60):
        raise ValueError("boom")
    assert listener.told == [None]
