"""What ended a worker, as its launcher concludes it."""

from __future__ import annotations

import signal

import pytest

from tfdist.errors import RunDirError
from tfdist.launch.agent.failure_diagnosis import from_error, from_signal, from_start
from tfdist.rundir.failure import Failure

ERROR = {"index": 1, "host": "h", "pid": 9, "type": "ValueError", "message": "boom", "traceback": "Trace", "time": 1.0}


@pytest.mark.parametrize(
    ("exit_code", "kind", "code"), [(1, "exception", 4), (4, "exception", 4), (2, "usage", 2), (5, "data", 5)]
)
def test_an_error_of_tfdist_keeps_its_exit_code(exit_code: int, kind: str, code: int) -> None:
    error = Failure.from_dict(ERROR | {"exit_code": exit_code})
    found = from_error(error, pid=9, log="l")
    assert (found.kind, found.exit_code, found.traceback) == (kind, code, "Trace")


def test_signals_are_named_with_what_they_may_mean() -> None:
    assert "SIGKILL (if nobody" in from_signal(0, signal.SIGKILL).message
    assert "SIGABRT (native" in from_signal(0, signal.SIGABRT).message
    assert "SIGTERM" in from_signal(0, signal.SIGTERM).message
    assert "signal 99" in from_signal(0, 99).message


def test_a_start_that_fails_has_its_errors_exit_code() -> None:
    assert from_start(0, OSError("no memory")).exit_code == 4
    assert from_start(0, RunDirError("full")).exit_code == 2
