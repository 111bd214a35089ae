"""Job outcomes: which error a notebook raises for which end of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfdist.errors import DataError, FormingError, TfdistError, UnsupportedError, UsageError, WorkerFailedError
from tfdist.launch.peers.messages import Stop
from tfdist.launch.run_result import RunResult
from tfdist.notebook.call_folder import CallFolder
from tfdist.notebook.job_outcome import JobOutcome
from tfdist.rundir.failure import Failure


def failed(**fields: Any) -> RunResult:
    failure = Failure(**{"index": 1, "host": "a", "time": 0.0, "kind": "exception", "message": "too much", **fields})
    return RunResult(failure.exit_code, (failure,))


@pytest.mark.parametrize(
    ("result", "error", "said"),
    [
        (failed(type="ValueError"), WorkerFailedError, "worker 1 (a) failed: ValueError: too much"),
        (failed(kind="data", type="tfdist.errors.DataError", exit_code=5), DataError, "too much"),
        (failed(kind="usage", type="tfdist.errors.UnsupportedError", exit_code=2), UnsupportedError, "too much"),
        (failed(kind="usage", type="tfdist.inner.UnclearError", exit_code=2), UsageError, "too much"),
        (failed(kind="signal", type="SIGKILL"), WorkerFailedError, "too much"),
        (RunResult(3), WorkerFailedError, "sys.exit(3)"),
        (RunResult(143, stop=Stop(143, "SIGTERM to the launcher on a")), TfdistError, "SIGTERM to the launcher"),
    ],
)
def test_a_job_that_failed_raises(tmp_path: Path, result: RunResult, error: type[Exception], said: str) -> None:
    JobOutcome.of_result(result).write(CallFolder(tmp_path))
    with pytest.raises(error) as raised:
        JobOutcome.read(CallFolder(tmp_path), result.code).raise_if_failed()
    assert type(raised.value) is error
    assert said in str(raised.value)


def test_a_job_that_was_refused_raises_the_same_error(tmp_path: Path) -> None:
    JobOutcome.of_error(FormingError("nobody came")).write(CallFolder(tmp_path))
    with pytest.raises(FormingError, match="nobody came"):
        JobOutcome.read(CallFolder(tmp_path), 3).raise_if_failed()


def test_a_job_that_succeeded_raises_nothing(tmp_path: Path) -> None:
    JobOutcome.of_result(RunResult(0)).write(CallFolder(tmp_path))
    JobOutcome.read(CallFolder(tmp_path), 0).raise_if_failed()


@pytest.mark.parametrize(("code", "how"), [(-9, "signal 9 ended it"), (1, "it exited with 1")])
def test_a_launcher_that_is_gone_without_a_word_is_a_failure(tmp_path: Path, code: int, how: str) -> None:
    with pytest.raises(WorkerFailedError, match=how):
        JobOutcome.read(CallFolder(tmp_path), code).raise_if_failed()
