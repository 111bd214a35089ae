from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfdist.errors import WorkerFailedError
from tfdist.launch.worker_requests import TraceRequest
from tfdist.training.probes.tracer import StepHolds


@pytest.fixture
def request_of(tmp_path: Path) -> TraceRequest:
    return TraceRequest(str(tmp_path), holds=(5, 9))


def test_it_waits_at_a_step_until_it_may_go_on(request_of: TraceRequest) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert json.loads(request_of.reached_file(0).read_text()) == {"step": 6, "attempt": 2}
        if len(slept) == 3:
            request_of.passed_file(0).touch()

    holds = StepHolds(request_of, 2, sleep=sleep)
    assert not holds.wait(4, 1)  # not there yet
    assert not holds.wait(5, 0)  # without a checkpoint the next start would begin where this one did
    assert not slept
    assert holds.wait(6, 1)
    assert len(slept) == 3
    assert not holds.wait(7, 1)
    assert not request_of.reached_file(1).exists()


def test_what_is_passed_is_not_waited_for_by_a_later_start(request_of: TraceRequest) -> None:
    request_of.passed_file(0).touch()
    holds = StepHolds(request_of, 1, seconds=0)
    holds.wait(8, 3)
    assert not request_of.reached_file(0).exists()
    with pytest.raises(WorkerFailedError, match=r"held after step 9 by `tfdist verify`.* within 0 s"):
        holds.wait(9, 3)
    request_of.passed_file(1).touch()
    StepHolds(request_of, 2).wait(20, 9)


def test_a_run_without_holds_waits_nowhere(tmp_path: Path) -> None:
    StepHolds(TraceRequest(str(tmp_path)), 0).wait(5, 5)
    assert not any(tmp_path.iterdir())
