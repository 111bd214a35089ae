from __future__ import annotations

import json
import signal

import pytest

from tfdist.errors import RunDirError
from tfdist.launch.agent.failure_diagnosis import (
    Failure,
    first_to_last,
    from_exit,
    from_record,
    from_signal,
    from_start,
)
from tfdist.launch.peers.messages import Stop
from tfdist.launch.run_dir.failure_report import render_report
from tfdist.launch.run_result import RunResult
from tfdist.rundir.job_state import ErrorRecord


def failure(index: int, time: float, type: str = "ValueError", **fields: object) -> Failure:
    return Failure(index, "h", time, "exception", "boom", type=type, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failures", "order"),
    [
        ([], []),
        ([failure(1, 2.0), failure(0, 1.0)], [0, 1]),
        # Clocks of two hosts differ, and a worker that raised takes a while to leave: the cause stays first.
        ([failure(0, 1.0, "tensorflow.python.framework.errors_impl.UnavailableError"), failure(1, 2.0)], [1, 0]),
        ([failure(0, 2.0, "UnavailableError"), failure(1, 1.0, "AbortedError")], [1, 0]),
        ([failure(0, 1.0, "tfdist.errors.WorkerFailedError"), failure(1, 2.0)], [1, 0]),
        ([failure(0, 1.0, "SIGABRT"), failure(1, 2.0, "SIGKILL")], [1, 0]),
        ([failure(0, 1.0), failure(0, 2.0), failure(1, 1.5)], [0, 1]),  # one worker, told of twice
    ],
)
def test_the_first_failure_is_found(failures: list[Failure], order: list[int]) -> None:
    assert [each.index for each in first_to_last(failures)] == order


def test_a_failure_goes_through_json() -> None:
    before = failure(1, 2.0, last_lines=("a", "b"), address="h:1")
    assert Failure.from_json(json.loads(json.dumps(before.to_json()))) == before


@pytest.mark.parametrize("value", [None, 3, {}, {"last_lines": [], "unknown": 1}])
def test_what_is_no_failure_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a failure"):
        Failure.from_json(value)


@pytest.mark.parametrize(
    ("exit_code", "kind", "code"), [(1, "exception", 4), (4, "exception", 4), (2, "usage", 2), (5, "data", 5)]
)
def test_an_error_of_tfdist_keeps_its_exit_code(exit_code: int, kind: str, code: int) -> None:
    record = ErrorRecord(1, "h", 9, exit_code, "ValueError", "boom", "Traceback", 1.0)
    found = from_record(record, pid=9, log="l")
    assert (found.kind, found.exit_code, found.traceback) == (kind, code, "Traceback")


def test_signals_are_named_with_what_they_may_mean() -> None:
    assert "SIGKILL (if nobody" in from_signal(0, signal.SIGKILL).message
    assert "SIGABRT (native" in from_signal(0, signal.SIGABRT).message
    assert "SIGTERM" in from_signal(0, signal.SIGTERM).message
    assert "signal 99" in from_signal(0, 99).message


def test_a_start_that_fails_has_its_errors_exit_code() -> None:
    assert from_start(0, OSError("no memory")).exit_code == 4
    assert from_start(0, RunDirError("full")).exit_code == 2


def test_the_report_blames_the_first_and_lists_the_others() -> None:
    first = failure(1, 1.0, address="h:2", pid=7, log="/r/logs/worker-1.0.log", traceback="Traceback\n  here\n")
    other = failure(0, 2.0, "UnavailableError", traceback="Traceback\n  elsewhere\n")
    report = render_report(RunResult(4, (first, other)))
    assert report.splitlines()[0] == "error: worker 1 (h, h:2, pid 7) failed: ValueError: boom"
    assert "  here" in report and "elsewhere" not in report
    assert "/r/logs/worker-1.0.log (on h)" in report
    assert "worker 0 (h): UnavailableError: boom" in report


def test_an_error_that_explains_itself_has_no_traceback_unless_asked_for() -> None:
    record = ErrorRecord(0, "h", 9, 5, "tfdist.errors.DataError", "No samples.", "Traceback", 1.0)
    outcome = RunResult(5, (from_record(record),))
    assert "Traceback" not in render_report(outcome)
    assert "failed: No samples." in render_report(outcome)
    assert "Traceback" in render_report(outcome, verbose=True)


def test_without_a_traceback_the_end_of_the_log_is_shown() -> None:
    report = render_report(RunResult(4, (from_exit(0, 3, last_lines=("one", "two")),)))
    assert "exited with code 3" in report and "    two" in report


def test_a_stop_is_said_and_success_is_silent() -> None:
    stop = Stop(143, "SIGTERM to h")
    assert render_report(RunResult(143, stop=stop)) == "stopped: SIGTERM to h; all workers have ended"
    abrupt = render_report(
        RunResult(143, (from_signal(1, 15), from_signal(0, 9)), stop, advice="none was inside of fit")
    )
    assert "ended where they were, not after the same step: none was inside of fit" in abrupt
    # The one that got the signal did not fail.
    assert "worker 0 (" in abrupt and "worker 1 (" not in abrupt
    assert render_report(RunResult(0)) == render_report(RunResult(7)) == ""
