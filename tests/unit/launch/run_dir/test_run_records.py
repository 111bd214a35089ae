""""""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.launch_fakes import assignments, state
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_dir.run_records import RemoteStates, close_state, read_failures, write_failure
from tfdist.rundir.layout import RunDir
from tfdist.rundir.state_records import State, WorkerState


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


def test_states_of_remote_workers_are_written(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.state_dir.mkdir()
    kept = RemoteStates(run, [1])
    kept.write([state(0, 5, time=1.0), state(1, 5, time=1.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 5, time=1.0)
    assert not run.state_file(0).exists()  # it writes its own


def test_a_shared_directory_keeps_the_newer_state(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.state_dir.mkdir()
    kept = RemoteStates(run, [1])
    state(1, 9, time=9.0).write(run.state_file(1), durable=False)
    kept.write([state(1, 5, time=5.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 9, time=9.0)
    kept.write([state(1, 10, time=10.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 10, time=10.0)


def test_a_clock_that_is_set_back_does_not_keep_states_from_being_written(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.state_dir.mkdir()
    kept = RemoteStates(run, [1])
    kept.write([state(1, 5, time=7200.0)])
    kept.write([state(1, 6, time=3600.0)])
    kept.write([state(1, 7, time=3601.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 7, time=3601.0)


def test_a_damaged_file_is_replaced_and_a_missing_directory_stops_nothing(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    RemoteStates(run, [1]).write([state(1, 5, time=5.0)])
    run.state_dir.mkdir(exist_ok=True)
    run.state_file(1).write_text("{")
    RemoteStates(run, [1]).write([state(1, 5, time=5.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 5, time=5.0)


def test_a_file_that_nobody_else_has_written_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand workers each reading would count."""
    run = RunDir(tmp_path)
    run.state_dir.mkdir()
    kept = RemoteStates(run, [1])
    kept.write([state(1, 5, time=5.0)])
    with monkeypatch.context() as here:
        here.setattr(WorkerState, "read", lambda file: pytest.fail("read"))
        kept.write([state(1, 6, time=6.0)])
    state(1, 9, time=9.0).write(run.state_file(1), durable=False)  # another host's, which shares the directory
    kept.write([state(1, 7, time=7.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 9, time=9.0)
    run.state_file(1).unlink()
    kept.write([state(1, 8, time=8.0)])
    assert WorkerState.read(run.state_file(1)) == state(1, 8, time=8.0)
