from __future__ import annotations

from pathlib import Path

from tfdist.launch.environment import Assignment
from tfdist.launch.trace_request import Kill, TraceRequest

REQUEST = TraceRequest("/r", 20, (Kill(1, 5), Kill(0, 9)), (4, 8))


def test_it_goes_through_the_environment() -> None:
    assignment = Assignment("/run", 7, 0, 1, "script", "train.py", trace=REQUEST)
    assert Assignment.from_environ(assignment.to_environ({})) == assignment


def test_each_attempt_has_one_kill_of_one_worker() -> None:
    assert [REQUEST.kill(worker, 0) for worker in (0, 1)] == [None, Kill(1, 5)]
    assert [REQUEST.kill(worker, 1) for worker in (0, 1)] == [Kill(0, 9), None]
    assert REQUEST.kill(0, 2) is None


def test_each_worker_has_a_file_of_each_attempt() -> None:
    assert REQUEST.steps_file(1, 2) == Path("/r/worker-1.2.jsonl")
    assert REQUEST.end_file(1) == Path("/r/worker-1.npz")


def test_each_hold_has_two_files() -> None:
    assert REQUEST.reached_file(0) == Path("/r/reached-0.json")
    assert REQUEST.passed_file(1) == Path("/r/passed-1")
