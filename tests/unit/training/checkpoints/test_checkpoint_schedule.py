"""The steps at which the workers of a training find a checkpoint due."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.checkpoint import SavePolicy
from tfdist.training.checkpoints import checkpoint_schedule as module
from tfdist.training.checkpoints.checkpoint_schedule import CheckpointSchedule


class Clock:
    """A clock that moves when it is told to, and a wire on which the chief's word can be another one's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked = 0
        self.chief_says: Any = None
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "broadcast", self._broadcast)

    def _broadcast(self, value: np.ndarray, strategy: Any) -> np.ndarray:
        self.asked += 1
        return value if self.chief_says is None else np.array(self.chief_says)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def due(steps: int | None, seconds: float | None) -> CheckpointSchedule:
    made = CheckpointSchedule(SavePolicy(steps, seconds), tf.distribute.get_strategy())
    made.begin(0)
    return made


def test_by_the_number_of_steps_nobody_is_asked(clock: Clock) -> None:
    made = due(3, None)
    assert [step for step in range(1, 10) if made.is_due(step)] == [3, 6, 9]
    assert [made.steps_until_due(step) for step in (0, 1, 2, 3)] == [3, 2, 1, 3]
    assert clock.asked == 0
    assert due(None, None).steps_until_due(5) == math.inf


def test_by_the_clock_it_comes_with_few_looks(clock: Clock) -> None:
    """A step takes a second, and every hundred seconds one is due."""
    made = due(None, 100.0)
    found = []
    for step in range(1, 301):
        clock.now += 1.0
        if made.is_due(step):
            found.append(step)
            made.saved()
    assert found == [100, 200, 300]
    assert clock.asked < 40


def test_the_chiefs_clock_counts(clock: Clock) -> None:
    made = due(None, 100.0)
    clock.chief_says = [1.0, 7.0]
    assert made.is_due(1)
    assert made.steps_until_due(1) == 7
    clock.now = 1000.0
    assert not made.is_due(5)  # nobody looks before it was agreed on
    clock.chief_says = [0.0, 1.0]
    assert not made.is_due(8)
