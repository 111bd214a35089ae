"""What ended a worker, as its launcher diagnoses it."""

from __future__ import annotations

import mmap
import os
import signal
from pathlib import Path

import pytest

from tests.helpers.launch_fakes import Clock, FakeWorker
from tfdist.errors import RunDirError
from tfdist.launch.agent.exit_diagnosis import ExitDiagnosis, OomKillCount, from_error, from_signal, from_start
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


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_both_counters_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/vmstat", "nr_free_pages 12\noom_kill 3\nzzz 4\n")
    write(tmp_path / "proc/self/cgroup", "0::/jobs/mine\n")
    write(tmp_path / "sys/fs/cgroup/jobs/mine/memory.events", "low 0\noom 2\noom_kill 1\n")
    assert OomKillCount.now(tmp_path) == OomKillCount(3, 1)


def test_a_container_sees_its_own_group_at_the_root(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "1:memory:/x\n0::/docker/abc\n")
    write(tmp_path / "sys/fs/cgroup/memory.events", "oom_kill 7\n")
    assert OomKillCount.now(tmp_path) == OomKillCount(None, 7)


@pytest.mark.parametrize("text", ["", "oom_kill\n", "oom_kill many\n"])
def test_counts_that_the_kernel_does_not_have_are_none(tmp_path: Path, text: str) -> None:
    write(tmp_path / "proc/vmstat", text)
    assert OomKillCount.now(tmp_path) == OomKillCount(None, None)


@pytest.mark.parametrize(
    ("before", "after", "grew"),
    [
        (OomKillCount(3, None), OomKillCount(4, None), True),
        (OomKillCount(3, 0), OomKillCount(3, 1), True),
        (OomKillCount(3, 0), OomKillCount(3, 0), False),
        (OomKillCount(3, 0), OomKillCount(4, 0), False),  # another job's
        (OomKillCount(3, None), OomKillCount(4, 1), True),
        (OomKillCount(None, None), OomKillCount(None, None), None),
        (OomKillCount(None, 1), OomKillCount(3, None), None),
    ],
)
def test_grew(before: OomKillCount, after: OomKillCount, grew: bool | None) -> None:
    assert before.grew(after) is grew


def test_counts_of_this_machine() -> None:
    now = OomKillCount.now()
    assert now.grew(OomKillCount.now()) in (False, None)
