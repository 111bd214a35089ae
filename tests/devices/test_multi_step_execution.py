"""How many steps run in one execution, and which of them Keras is given: counted, without a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator, EpochBatches, Parts
from tfdist.keras_repairs.loop import multi_step_execution
from tfdist.keras_repairs.loop.multi_step_execution import (
    CALL,
    CHEAP,
    MOST,
    TIMED,
    MultiStepExecutor,
    steps_at_once,
)


def batches(steps: float | None = math.inf, steps_per_epoch: int | None = None, done: int = 0) -> BatchIterator:
    given = range(0 if steps is None or steps == math.inf else int(steps))
    return iter(EpochBatches(Parts(given), steps, steps_per_epoch, done, plain_keras_overruns=False, is_cut=False))


def test_taking_stops_at_the_end() -> None:
    eight = batches(8)
    assert [eight.take(3), eight.take(3), eight.take(3), eight.take(1)] == [3, 3, 2, 0]
    assert eight.left == eight.left_of_epoch == 0


@pytest.mark.parametrize(
    ("steps", "steps_per_epoch", "done", "expected"),
    [
        (8, None, 0, [8, 5, 2, 0]),  # an epoch of its own
        (math.inf, 5, 0, [5, 2, 4, 1]),  # an iterator over data without an end, which serves all epochs
        (math.inf, 5, 3, [2, 4, 1, 3]),  # a resumed one
        (7, 5, 0, [5, 2, 1, 0]),  # data that ends in an epoch
        (None, 5, 0, [0, 0, 0, 0]),  # nobody knows how many are left
    ],
)
def test_what_is_left_of_an_epoch_after_every_third_step(
    steps: float | None, steps_per_epoch: int | None, done: int, expected: list[float]
) -> None:
    iterator = batches(steps, steps_per_epoch, done)
    left = []
    for _ in expected:
        left.append(iterator.left_of_epoch)
        iterator.take(3)
    assert left == expected


def test_a_batch_that_is_fetched_is_taken_and_the_end_is_tensorflows() -> None:
    two = batches(2)
    assert [next(two), next(two), two.left] == [0, 1, 0]
    with pytest.raises(tf.errors.OutOfRangeError):
        next(two)


@pytest.mark.parametrize(
    ("seconds", "steps"), [(1.0, 1), (0.05, 1), (0.024, 2), (0.005, 10), (1e-6, MOST), (0.0, MOST)]
)
def test_steps_at_once(seconds: float, steps: int) -> None:
    assert steps_at_once(seconds) == steps


class Executed:
    """An executor whose executions are noted, of `at_once` steps once some have been timed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at_once: int = 4) -> None:
        self.steps: list[int] = []
        self.agreed: list[float] = []
        monkeypatch.setattr(multi_step_execution, "steps_at_once", lambda seconds: at_once)
        self.executor = MultiStepExecutor(self.run, self.agree)
        assert self.executor.unreported == 0
        warm = batches()
        for _ in range(TIMED):
            self.executor(warm, watched=False)
        assert self.steps == [1] * TIMED
        self.steps.clear()

    def run(self, iterator: BatchIterator, steps: int) -> Any:
        self.steps.append(steps)
        return f"outputs {len(self.steps)}"

    def agree(self, seconds: float) -> float:
        self.agreed.append(seconds)
        return seconds

    def call(self, iterator: BatchIterator, times: int, **options: Any) -> list[Any]:
        return [self.executor(iterator, **{"watched": False, **options}) for _ in range(times)]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Executed]:
    return lambda **options: Executed(monkeypatch, **options)


def test_each_step_is_executed_once_and_no_epoch_runs_into_the_next(make: Callable[..., Executed]) -> None:
    executed = make()
    seen = executed.call(batches(math.inf, steps_per_epoch=6), 12)
    assert executed.steps == [4, 2, 4, 2]
    assert seen == ["outputs 1"] * 4 + ["outputs 2"] * 2 + ["outputs 3"] * 4 + ["outputs 4"] * 2
    assert executed.executor.unreported == 0


def test_a_resumed_epoch_ends_where_it_would_have(make: Callable[..., Executed]) -> None:
    executed = make()
    executed.call(batches(math.inf, steps_per_epoch=6, done=3), 9)
    assert executed.steps == [3, 4, 2]


def test_a_step_that_is_watched_or_due_ends_its_execution(make: Callable[..., Executed]) -> None:
    executed, iterator = make(), batches(20)
    executed.call(iterator, 1, watched=True)
    executed.call(iterator, 3, most=3)
    executed.call(iterator, 1, most=0)  # one is always made
    executed.call(iterator, 1)
    assert executed.steps == [1, 3, 1, 4]
    assert executed.executor.unreported == 3


def test_of_another_iterator_nothing_is_reported_that_was_not_executed(make: Callable[..., Executed]) -> None:
    executed, first, second = make(), batches(8), batches(8)
    assert executed.call(first, 2) == ["outputs 1"] * 2
    assert executed.call(second, 1) == ["outputs 2"]
    assert executed.steps == [4, 4]


@pytest.mark.parametrize(
    ("seconds_to_compile", "steps_of_epoch", "expected"),
    [
        (CHEAP - 1, 8, [4, 4, 4, 4]),  # always
        (12_000 * CALL, 12_000, [4, 4]),  # enough are left
        (20.0, 8, [1] * 16),  # they are not
    ],
)
def test_several_steps_are_compiled_where_they_make_up_for_it(
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[..., Executed],
    seconds_to_compile: float,
    steps_of_epoch: int,
    expected: list[int],
) -> None:
    executed = timed(monkeypatch, make, seconds_to_compile)
    executed.call(batches(math.inf, steps_per_epoch=steps_of_epoch), sum(expected))
    assert executed.steps == expected


def test_a_function_that_is_dear_is_compiled_once_the_steps_behind_and_before_it_pay_for_it(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Executed]
) -> None:
    monkeypatch.setattr(multi_step_execution, "CHEAP", 0.0)
    executed = timed(monkeypatch, make, (TIMED + 4 + 8) * CALL)
    executed.call(batches(math.inf, steps_per_epoch=8), 16)
    # After four steps four are left, in the next epoch eight.
    assert executed.steps == [1] * 8 + [4, 4]


def timed(monkeypatch: pytest.MonkeyPatch, make: Callable[..., Executed], seconds_to_compile: float) -> Executed:
    """Executions of no time but the first."""
    clock = iter([0.0, seconds_to_compile])
    monkeypatch.setattr(multi_step_execution.time, "perf_counter", lambda: next(clock, 1e9))
    return make()


def test_the_workers_agree_once_and_not_on_the_time_of_the_first_execution(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Executed]
) -> None:
    times = iter([10.0, 11.0, 20.0, 22.0, 30.0, 33.0, 40.0, 44.0, *range(100)])
    monkeypatch.setattr(multi_step_execution.time, "perf_counter", lambda: next(times))
    executed = make()
    executed.call(batches(), 9)
    assert executed.agreed == [-1.0, 2.0]


def test_the_workers_agree_once_more_on_the_time_of_steps_that_run_together(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Executed]
) -> None:
    executed = make()
    assert len(executed.agreed) == 2
    times = iter([0.0, 99.0, 0.0, 12.0, 0.0, 8.0, 0.0, 16.0])
    monkeypatch.setattr(multi_step_execution.time, "perf_counter", lambda: next(times, 0.0))
    executed.call(batches(), 9 * 4)
    assert executed.agreed[2:] == [2.0], "the first of them compiles"
