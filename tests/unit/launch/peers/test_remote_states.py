from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.launch_fakes import state
from tfdist.launch.peers.remote_states import RemoteStates
from tfdist.rundir import RunDir, WorkerState


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
