"""What ended a worker, as its launcher diagnoses it."""

from __future__ import annotations

import mmap
import os
import signal
from pathlib import Path

import pytest

from tests.unit.launch.fakes import Clock, FakeWorker
from tfdist.errors import RunDirError
from tfdist.launch.agent.failure_diagnosis import ExitDiagnosis, from_error, from_signal, from_start
from tfdist.launch.agent.oom_detection import OomKillCount
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.failure import Failure
from tfdist.rundir.layout import RunDir

KILLED = -signal.SIGKILL

ERROR = {"index": 1, "host": "h", "pid": 9, "type": "ValueError", "message": "boom", "traceback": "Trace", "time": 1.0}


@pytest.mark.parametrize(
    ("exit_code", "kind", "code"), [(1, "exception", 4), (4, "exception", 4), (2, "usage", 2), (5, "data", 5)]
)
def test_an_error_of_tfdist_keeps_its_exit_code(exit_code: int, kind: str, code: int) -> None:
    error = Failure.from_dict(ERROR | {"exit_code": exit_code})
    found = from_error(error, pid=9, log="l")
    assert (found.kind, found.exit_code, found.traceback) == (kind, code, "Trace")


def test_signals_are_named_with_likely_causes() -> None:
    assert "SIGKILL (if nobody" in from_signal(0, signal.SIGKILL).message
    assert "SIGABRT (native" in from_signal(0, signal.SIGABRT).message
    assert "SIGTERM" in from_signal(0, signal.SIGTERM).message
    assert "signal 99" in from_signal(0, 99).message


def test_a_failed_start_has_the_exit_code_of_its_error() -> None:
    assert from_start(0, OSError("no memory")).exit_code == 4
    refused = from_start(0, RunDirError("full"))
    assert refused.exit_code == 2 and refused.message == "was not started: full"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def test_a_kill_for_want_of_memory_is_not_taken_for_one_on_purpose(run: RunDir) -> None:
    kills = iter([OomKillCount(None, 0), OomKillCount(None, 1), OomKillCount(None, 1), OomKillCount(None, 1)])
    diagnosis = ExitDiagnosis(run, BoundedDisk(run.path), lambda: next(kills))
    kinds = []
    for _ in range(2):
        # A restarted worker is not blamed for the kill of the one before it.
        diagnosis.start(0)
        failure = diagnosis(FakeWorker(0, Clock()), KILLED)
        kinds.append(failure and failure.kind)
    assert kinds == ["memory", "signal"]


def test_a_worker_that_the_launcher_ended_did_not_fail(run: RunDir) -> None:
    worker = FakeWorker(0, Clock(), ended_by_launcher=True)
    assert ExitDiagnosis(run, BoundedDisk(run.path))(worker, KILLED) is None


def test_without_a_whole_error_file_the_exit_code_tells(run: RunDir) -> None:
    file = run.error_file(0, 0)
    file.parent.mkdir(parents=True)
    file.write_text('{"index": 0, "host":')
    diagnosis = ExitDiagnosis(run, BoundedDisk(run.path), lambda: OomKillCount(None, None))
    diagnosis.start(0)
    failure = diagnosis(FakeWorker(0, Clock()), -signal.SIGABRT)
    assert failure is not None and (failure.kind, failure.type) == ("signal", "SIGABRT")


def test_an_error_file_is_of_its_worker_whatever_it_says(run: RunDir) -> None:
    run.state_dir.mkdir()
    Failure.from_dict({**ERROR, "index": 99, "exit_code": 1}).write_error(run.error_file(0, 0))
    failure = ExitDiagnosis(run, BoundedDisk(run.path))(FakeWorker(0, Clock()), 1)
    assert failure is not None and (failure.index, failure.message) == (0, "boom")


def test_a_bus_error_is_told_with_the_file_that_became_smaller(run: RunDir, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(bytes(20_000))
    diagnosis = ExitDiagnosis(run, BoundedDisk(run.path))
    diagnosis.start(0)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        diagnosis.look({0: os.getpid()}, 1.0)
    # Once it has ended, the system does not know any more.
    diagnosis.look({0: 0}, 100.0)
    os.truncate(path, 0)
    failure = diagnosis(FakeWorker(0, Clock()), -signal.SIGBUS)
    assert failure is not None and failure.kind == "signal"
    assert failure.message.startswith(f"killed by SIGBUS: {path} had ") and "Write new data into" in failure.message
    diagnosis.start(0)
    other = diagnosis(FakeWorker(0, Clock()), -signal.SIGBUS)
    assert other is not None and "became smaller or cannot be read any more, or native code crashed" in other.message
