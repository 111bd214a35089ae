from __future__ import annotations

from tests.helpers.launch_fakes import state
from tfdist.launch.agent.hang_detection import ProgressClock, StackRequest
from tfdist.launch.peers.messages import WorkerStacks


def test_progress_of_one_is_progress_of_all() -> None:
    clock = ProgressClock()
    for now in range(100):
        clock.note(state(0, 5, limit=10.0), now)
        clock.note(state(1, now, limit=10.0), now)
        assert clock.hangs_since(now) is None
    assert clock.hangs_since(109.5) == 10.5


def test_a_repeated_state_is_no_progress() -> None:
    clock = ProgressClock()
    for now in range(12):
        clock.note(state(0, 5, limit=10.0, time=float(now)), now)
    assert clock.hangs_since(12) == 12


def test_a_worker_that_is_done_does_not_count() -> None:
    clock = ProgressClock()
    clock.note(state(0, 5, limit=10.0), 0)
    clock.forget(0)
    assert clock.hangs_since(1000) is None


def test_the_silent_ones_get_a_signal_after_half_of_their_time_and_not_before() -> None:
    request = StackRequest([0, 1], now=10.0, seconds=4.0)
    request.take(WorkerStacks(0, "train.py line 3", ""))
    assert [request.wants_signal(now) for now in (10.0, 12.0, 12.1, 20.0)] == [False, False, True, True]
    assert [request.is_over(now) for now in (10.0, 14.0, 14.1)] == [False, False, True]
    request.take(WorkerStacks(1, "train.py line 3", ""))
    assert not request.wants_signal(12.1)
    assert request.is_over(10.0)


def test_an_answer_counts_once_and_of_a_worker_that_was_asked() -> None:
    request = StackRequest([1], now=0.0)
    for answer in (WorkerStacks(2, "else", ""), WorkerStacks(1, "first", ""), WorkerStacks(1, "second", "")):
        request.take(answer)
    assert {index: answer.where for index, answer in request.answers.items()} == {1: "first"}
