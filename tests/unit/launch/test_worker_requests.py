from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tfdist.errors import UsageError
from tfdist.launch.environment import Assignment
from tfdist.launch.worker_requests import Kill, RecordingRequest, RehearsalRequest, TraceRequest

RECORDING = RecordingRequest("/r", steps=3, replicas=2, precision="float32", perturbed=True)
TRACE = TraceRequest("/r", 20, (Kill(1, 5), Kill(0, 9)), (4, 8))


def test_a_recording_goes_through_the_environment() -> None:
    assignment = Assignment("/run", 7, 0, 1, "script", "train.py", recording=RECORDING)
    assert Assignment.from_environ(assignment.to_environ({})) == assignment


def test_each_worker_records_into_a_file_of_its_own() -> None:
    assert RECORDING.file(1) == Path("/r/worker-1.npz")


@pytest.mark.parametrize("changed", [{"steps": 0}, {"replicas": 0}])
def test_a_recording_checks_itself(changed: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(RECORDING, **changed)


def test_a_trace_goes_through_the_environment() -> None:
    assignment = Assignment("/run", 7, 0, 1, "script", "train.py", trace=TRACE)
    assert Assignment.from_environ(assignment.to_environ({})) == assignment


def test_each_attempt_has_one_kill_of_one_worker() -> None:
    assert [TRACE.kill(worker, 0) for worker in (0, 1)] == [None, Kill(1, 5)]
    assert [TRACE.kill(worker, 1) for worker in (0, 1)] == [Kill(0, 9), None]
    assert TRACE.kill(0, 2) is None


def test_each_worker_has_a_file_of_each_attempt() -> None:
    assert TRACE.steps_file(1, 2) == Path("/r/worker-1.2.jsonl")
    assert TRACE.end_file(1) == Path("/r/worker-1.npz")


def test_each_hold_has_two_files() -> None:
    assert TRACE.reached_file(0) == Path("/r/reached-0.json")
    assert TRACE.passed_file(1) == Path("/r/passed-1")


def test_a_rehearsal_comes_back_from_its_fields(tmp_path: Path) -> None:
    request = RehearsalRequest(str(tmp_path), 6, 30.0)
    assert RehearsalRequest.of(dataclasses.asdict(request)) == request
    assert RehearsalRequest.of(None) is None
    assert (request.plans, RehearsalRequest(str(tmp_path)).plans) == (True, False)


def test_a_rehearsal_of_no_steps_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one step"):
        RehearsalRequest("folder", 0)
