from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.launch_fakes import assignments, state
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_dir.run_records import close_state, read_failures, write_failure
from tfdist.rundir.layout import RunDir
from tfdist.rundir.worker_state_record import State, WorkerState


@pytest.mark.parametrize("last", [State.FAILED, State.STOPPED])
def test_a_state_is_closed_with_its_last_attempt(last: State, tmp_path: Path) -> None:
    """When the job ends, after any number of restarts, only the assignments of its first attempt are known."""
    location = RunLocation(RunDir(tmp_path), "r", 0, 0, "job", True)
    file = location.run_dir.state_file(0)
    file.parent.mkdir(parents=True)
    state(0, 7, attempt=2, epoch=1).write(file)
    close_state(location, assignments(1)[0], last)
    closed = WorkerState.read(file)
    assert closed is not None
    assert (closed.state, closed.attempt, closed.epoch, closed.step) == (last, 2, 1, 7)


@pytest.mark.parametrize("before", [State.FINISHED, State.FAILED, State.STOPPED])
def test_what_a_worker_said_of_its_end_stays(before: State, tmp_path: Path) -> None:
    location = RunLocation(RunDir(tmp_path), "r", 0, 0, "job", True)
    file = location.run_dir.state_file(0)
    file.parent.mkdir(parents=True)
    state(0, 7, state=before).write(file)
    for last in (State.FAILED, State.STOPPED):
        close_state(location, assignments(1)[0], last)
        closed = WorkerState.read(file)
        assert closed is not None and closed.state is before


def test_failures_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "failure.json"
    assert read_failures(file) == ()
    failures = (from_signal(1, 9), from_signal(0, 15))
    write_failure(file, failures)
    assert read_failures(file) == failures
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "consequences": [7, *content["consequences"]]}))
    assert read_failures(file) == failures
    file.write_text("[]")
    assert read_failures(file) == ()
