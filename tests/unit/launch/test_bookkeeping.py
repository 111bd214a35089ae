from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.unit.launch.fakes import Clock, FakeWorker
from tfdist.launch.bookkeeping import Diagnosis
from tfdist.launch.memory import KillCount
from tfdist.launch.run_place import Place
from tfdist.rundir.layout import RunDir

KILLED = -signal.SIGKILL


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(RunDir(tmp_path), "r", 0, 0, "job", True)


def test_a_kill_for_want_of_memory_is_told_from_one_on_purpose(place: Place) -> None:
    kills = iter([KillCount(None, 0), KillCount(None, 1), KillCount(None, 1), KillCount(None, 1)])
    diagnosis = Diagnosis(place, lambda: next(kills))
    kinds = []
    for _ in range(2):
        # Started again, the worker is not blamed for what killed the one before it.
        diagnosis.begins(0)
        failure = diagnosis(FakeWorker(0, Clock()), KILLED)
        kinds.append(failure and failure.kind)
    assert kinds == ["memory", "signal"]


def test_who_the_launcher_ended_did_not_fail(place: Place) -> None:
    worker = FakeWorker(0, Clock(), ended_by_launcher=True)
    assert Diagnosis(place)(worker, KILLED) is None


def test_an_error_file_that_is_cut_short_leaves_the_exit_code_to_tell(place: Place) -> None:
    file = place.run_dir.error_file(0, 0)
    file.parent.mkdir(parents=True)
    file.write_text('{"index": 0, "host":')
    diagnosis = Diagnosis(place, lambda: KillCount(None, None))
    diagnosis.begins(0)
    failure = diagnosis(FakeWorker(0, Clock()), -signal.SIGABRT)
    assert failure is not None and (failure.kind, failure.type) == ("signal", "SIGABRT")
