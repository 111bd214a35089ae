from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.unit.launch.fakes import Clock, FakeWorker, assignments, state
from tfdist.launch.agent.oom_detection import OomKillCount
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_dir.run_records import ExitDiagnosis, close_state
from tfdist.rundir.layout import RunDir
from tfdist.rundir.worker_state import State, WorkerState

KILLED = -signal.SIGKILL


@pytest.fixture
def place(tmp_path: Path) -> RunLocation:
    return RunLocation(RunDir(tmp_path), "r", 0, 0, "job", True)


def test_a_kill_for_want_of_memory_is_told_from_one_on_purpose(place: RunLocation) -> None:
    kills = iter([OomKillCount(None, 0), OomKillCount(None, 1), OomKillCount(None, 1), OomKillCount(None, 1)])
    diagnosis = ExitDiagnosis(place, lambda: next(kills))
    kinds = []
    for _ in range(2):
        # Started again, the worker is not blamed for what killed the one before it.
        diagnosis.begins(0)
        failure = diagnosis(FakeWorker(0, Clock()), KILLED)
        kinds.append(failure and failure.kind)
    assert kinds == ["memory", "signal"]


def test_who_the_launcher_ended_did_not_fail(place: RunLocation) -> None:
    worker = FakeWorker(0, Clock(), ended_by_launcher=True)
    assert ExitDiagnosis(place)(worker, KILLED) is None


def test_an_error_file_that_is_cut_short_leaves_the_exit_code_to_tell(place: RunLocation) -> None:
    file = place.run_dir.error_file(0, 0)
    file.parent.mkdir(parents=True)
    file.write_text('{"index": 0, "host":')
    diagnosis = ExitDiagnosis(place, lambda: OomKillCount(None, None))
    diagnosis.begins(0)
    failure = diagnosis(FakeWorker(0, Clock()), -signal.SIGABRT)
    assert failure is not None and (failure.kind, failure.type) == ("signal", "SIGABRT")


def test_the_state_that_is_closed_for_a_worker_is_of_its_last_attempt(place: RunLocation) -> None:
    """The job's first assignments are all that there is when it ends, after whatever restarts."""
    file = place.run_dir.state_file(0)
    file.parent.mkdir(parents=True)
    state(0, 7, attempt=2, epoch=1).write(file)
    close_state(place, assignments(1)[0])
    closed = WorkerState.read(file)
    assert closed is not None
    assert (closed.state, closed.attempt, closed.epoch, closed.step) == (State.FAILED, 2, 1, 7)
