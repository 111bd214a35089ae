from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tfdist.training.supervision.stop_requests import StopRequests, WorkerStopped, saved_words


class Training:
    """Batches in a thread, one execution after another, as long as it is let."""

    def __init__(self, requests: StopRequests, executions: list[int]) -> None:
        self.begun = 0
        self.code: int | None = None
        self._requests = requests
        self._executions = executions
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._requests.during_fit():
                for batches in self._executions:
                    self._requests.begin_batches(batches)
                    self.begun += batches
        except WorkerStopped as end:
            self.code = end.code

    def end(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.fixture
def requests() -> Iterator[StopRequests]:
    yield StopRequests(grace=20)


def begin(requests: StopRequests, *executions: int) -> int:
    """Begins them in this thread; returns the batches begun before the stop, or all."""
    begun = 0
    with requests.during_fit():
        for batches in executions:
            try:
                requests.begin_batches(batches)
            except WorkerStopped:
                break
            begun += batches
    return begun


def test_outside_of_a_fit_there_is_no_step_to_stop_at(requests: StopRequests) -> None:
    assert requests.hold() is None
    requests.begin_batches(3)
    with requests.during_fit():
        assert requests.hold() == 0


def test_stops_after_the_batch_of_the_farthest(requests: StopRequests) -> None:
    assert begin(requests, 2, 2) == 4
    with requests.during_fit():
        assert requests.hold() == 4
    requests.stop(after=8, code=143)
    assert begin(requests, *[2] * 10) == 4


def test_an_execution_that_a_stop_would_cut_is_done(requests: StopRequests) -> None:
    requests.hold()
    requests.stop(after=3, code=143)
    assert begin(requests, 2, 2, 2) == 4


def test_waits_to_be_told_where(requests: StopRequests) -> None:
    requests.hold()
    training = Training(requests, [1] * 10)
    requests.stop(after=3, code=130)
    training.end()
    assert (training.begun, training.code) == (3, 130)


def test_stops_again_where_a_script_continues(requests: StopRequests) -> None:
    requests.hold()
    requests.stop(after=1, code=143)
    assert begin(requests, 1, 1) == 1
    assert begin(requests, 1) == 0


def test_continues_when_nobody_says_where_and_ignores_a_stop_that_comes_too_late() -> None:
    times = iter([0.0, *[100.0] * 10])
    requests = StopRequests(grace=20, clock=lambda: next(times))
    requests.hold()
    assert begin(requests, 1, 1, 1) == 3
    requests.stop(after=1, code=143)
    assert begin(requests, 1) == 1


def test_a_stop_without_a_hold_is_none(requests: StopRequests) -> None:
    requests.stop(after=0, code=143)
    assert begin(requests, 1) == 1


def test_saves_before_it_stops(requests: StopRequests, capsys: pytest.CaptureFixture[str]) -> None:
    saved: list[str] = []
    def save(name: str) -> str:
        saved.append(name)
        return f"saved {name}"

    requests.at_stop(lambda: save("first"))
    requests.at_stop(lambda: save("second"))
    assert requests.stopped_with is None
    requests.hold()
    requests.stop(after=0, code=143)
    with requests.during_fit(), pytest.raises(WorkerStopped) as end:
        requests.begin_batches(1)
    assert (end.value.code, saved, requests.stopped_with) == (143, ["first", "second"], 143)
    assert capsys.readouterr().out == "stopped between two batches; saved first; saved second\n"


def test_what_a_stop_has_saved_or_why_it_has_not() -> None:
    assert saved_words("step 3 in runs/a", "") == "saved step 3 in runs/a"
    assert saved_words(None, "no step was done") == "nothing was saved (no step was done)"


def test_what_cannot_be_saved_is_the_error(requests: StopRequests) -> None:
    def save() -> str:
        raise OSError("No space left")

    requests.at_stop(save)
    requests.hold()
    requests.stop(after=0, code=143)
    with requests.during_fit(), pytest.raises(OSError, match="No space"):
        requests.begin_batches(1)
