from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tfdist.training.supervision.stop_requests import StopRequests, WorkerStopped


class Training:
    """Batches in a thread, one execution after another, as long as it is let."""

    def __init__(self, stopping: StopRequests, executions: list[int]) -> None:
        self.begun = 0
        self.code: int | None = None
        self._stopping = stopping
        self._executions = executions
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._stopping.fitting():
                for batches in self._executions:
                    self._stopping.begin(batches)
                    self.begun += batches
        except WorkerStopped as end:
            self.code = end.code

    def end(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def stopping() -> Iterator[StopRequests]:
    yield StopRequests(grace=20)


def begin(stopping: StopRequests, *executions: int) -> int:
    """Begins them in this thread; returns the batches begun before the stop, or all."""
    begun = 0
    with stopping.fitting():
        for batches in executions:
            try:
                stopping.begin(batches)
            except WorkerStopped:
                break
            begun += batches
    return begun


def test_outside_of_a_fit_there_is_no_step_to_stop_at(stopping: StopRequests) -> None:
    assert stopping.hold() is None
    stopping.begin(3)
    with stopping.fitting():
        assert stopping.hold() == 0


def test_stops_after_the_batch_of_the_farthest(stopping: StopRequests) -> None:
    assert begin(stopping, 2, 2) == 4
    with stopping.fitting():
        assert stopping.hold() == 4
    stopping.stop(after=8, code=143)
    assert begin(stopping, *[2] * 10) == 4


def test_an_execution_that_a_stop_would_cut_is_done(stopping: StopRequests) -> None:
    stopping.hold()
    stopping.stop(after=3, code=143)
    assert begin(stopping, 2, 2, 2) == 4


def test_waits_to_be_told_where(stopping: StopRequests) -> None:
    stopping.hold()
    training = Training(stopping, [1] * 10)
    stopping.stop(after=3, code=130)
    training.end()
    assert (training.begun, training.code) == (3, 130)


def test_stops_again_where_a_script_goes_on(stopping: StopRequests) -> None:
    stopping.hold()
    stopping.stop(after=1, code=143)
    assert begin(stopping, 1, 1) == 1
    assert begin(stopping, 1) == 0


def test_goes_on_when_nobody_says_where_and_heeds_no_stop_that_comes_too_late() -> None:
    times = iter([0.0, *[100.0] * 10])
    stopping = StopRequests(grace=20, clock=lambda: next(times))
    stopping.hold()
    assert begin(stopping, 1, 1, 1) == 3
    stopping.stop(after=1, code=143)
    assert begin(stopping, 1) == 1


def test_a_stop_without_a_hold_is_none(stopping: StopRequests) -> None:
    stopping.stop(after=0, code=143)
    assert begin(stopping, 1) == 1


def test_saves_before_it_stops(stopping: StopRequests) -> None:
    saved: list[str] = []
    stopping.at_stop(lambda: saved.append("first"))
    stopping.at_stop(lambda: saved.append("second"))
    stopping.hold()
    stopping.stop(after=0, code=143)
    with stopping.fitting(), pytest.raises(WorkerStopped) as end:
        stopping.begin(1)
    assert (end.value.code, saved) == (143, ["first", "second"])


def test_what_cannot_be_saved_is_the_error(stopping: StopRequests) -> None:
    def save() -> str:
        raise OSError("No space left")

    stopping.at_stop(save)
    stopping.hold()
    stopping.stop(after=0, code=143)
    with stopping.fitting(), pytest.raises(OSError, match="No space"):
        stopping.begin(1)
