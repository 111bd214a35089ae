"""The workers of a training make each checkpoint together: the chief decides, and all run the same collectives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.checkpoint import CheckpointSummary, SavePolicy
from tfdist.training.checkpoints import checkpoint_callback as module
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback, CheckpointSchedule


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


FACTS = CheckpointSummary(0, 0, 0, 1, 4, 40, 2, 2, 0.0)


class Checkpoints:
    """Stands in for a run's; the steps in `busy` come while an earlier one is still written, and are left out."""

    def __init__(self, busy: set[int]) -> None:
        self.busy = busy
        self.saved: list[int] = []
        self.folder = Path("checkpoints")

    def ready(self, step: int, *, must: bool = False) -> bool:
        return must or step not in self.busy

    def save(self, weights: Any, values: Any, summary: CheckpointSummary) -> None:
        self.saved.append(summary.total)

    def finish(self) -> bool:
        return True


class Wire:
    """Plays the collectives of two workers that do one after the other what they do at once: the chief is first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: dict[int, list[str]] = {0: [], 1: []}
        self._broadcasts: Iterator[Any] = iter(())
        self._sent: list[Any] = []
        self.rank = 0
        monkeypatch.setattr(module, "worker_rank", lambda strategy: self.rank)
        monkeypatch.setattr(module, "broadcast", self._broadcast)
        monkeypatch.setattr(module.replica_values, "read", lambda parts, strategy: self._gather("values"))
        monkeypatch.setattr(module.random_state, "read", lambda strategy: self._gather("random") or np.zeros(1))
        monkeypatch.setattr(module, "WeightsCopy", lambda model: None)

    def be(self, rank: int) -> None:
        self.rank = rank
        self._broadcasts = iter(self._sent)

    def _broadcast(self, value: Any, strategy: Any) -> Any:
        self.said[self.rank].append("broadcast")
        if self.rank == 0:
            self._sent.append(value)
            return value
        return next(self._broadcasts)

    def _gather(self, what: str) -> dict[str, np.ndarray]:
        self.said[self.rank].append(what)
        return {}


def train(callback: CheckpointCallback, model: keras.Model, steps: int) -> None:
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for batch in range(steps):
        callback.on_train_batch_end(batch, {"loss": 1.0})
    callback.on_epoch_end(0, {"loss": 1.0})
    callback.on_train_end()


@pytest.mark.parametrize(("busy", "saved"), [(set(), [2, 4, 6, 8, 8]), ({4, 6}, [2, 8, 8])])
def test_a_checkpoint_that_is_left_out_is_left_out_by_all(
    busy: set[int], saved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the chief knows that the one before is still being written (`when_busy: skip`)."""
    wire = Wire(monkeypatch)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for rank in (0, 1):
        wire.be(rank)
        # A worker that asked for itself would find nothing under way.
        checkpoints = Checkpoints(busy if rank == 0 else set())
        callback = CheckpointCallback(checkpoints, SavePolicy(2), FACTS, 8, dict, None, tf.distribute.get_strategy())  # type: ignore[arg-type]
        train(callback, model, 8)
        assert checkpoints.saved == (saved if rank == 0 else [])
    assert wire.said[0] == wire.said[1]
    assert wire.said[0].count("values") == 2 * len(saved)


def test_a_stop_that_saves_nothing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    Wire(monkeypatch)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    checkpoints = Checkpoints(set())
    callback = CheckpointCallback(checkpoints, SavePolicy(2), FACTS, 8, dict, None, tf.distribute.get_strategy())  # type: ignore[arg-type]
    callback.set_model(model)
    callback.on_train_begin()
    assert (callback.save_now(), callback.why_not_saved) == (None, "no step was done")
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(0, {"loss": 1.0})
    monkeypatch.setattr(checkpoints, "ready", lambda step, *, must=False: False)
    assert (callback.save_now(), callback.why_not_saved) == (None, "its checkpoint could not be written")
