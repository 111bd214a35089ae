from __future__ import annotations

import dataclasses
import logging
import queue
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.waiting import until
from tfdist.launch.environment import Assignment
from tfdist.rundir import State, WorkerState
from tfdist.training.supervision import activity as activity_module
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.heartbeat import Heartbeat

Beats = queue.Queue[WorkerState]


def assignment(folder: Path) -> Assignment:
    return Assignment(
        run_dir=str(folder), seed=1, index=0, num_workers=1, target_kind="script", target="x.py", attempt=2
    )


def next_beat(beats: Beats, matches: Callable[[WorkerState], bool]) -> WorkerState:
    while not matches(beat := beats.get(timeout=20)):
        pass
    return beat


@pytest.fixture
def beats() -> Beats:
    return queue.Queue()


@pytest.fixture
def activity() -> ActivityTracker:
    return ActivityTracker(Limits(1800.0, 600.0))


@pytest.fixture
def heartbeat(tmp_path: Path, activity: ActivityTracker, beats: Beats) -> Heartbeat:
    return Heartbeat(tmp_path / "state.json", assignment(tmp_path), activity, beats.put)


def test_begins_at_once(tmp_path: Path, heartbeat: Heartbeat, beats: Beats) -> None:
    told = beats.get_nowait()
    assert (told.state, told.attempt, told.limit, told.moves) == (State.STARTING, 2, None, 0)
    written = WorkerState.read(tmp_path / "state.json")
    assert written is not None and dataclasses.replace(written, time=told.time) == told  # it is written every second


def test_tells_how_it_gets_on_by_itself(
    tmp_path: Path, activity: ActivityTracker, heartbeat: Heartbeat, beats: Beats, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However late the thread comes to look, what follows the batch is no callback.
    monkeypatch.setattr(activity_module, "SHORT_SECONDS", 600.0)
    with activity.calling("fit"):
        activity.begin_epoch(3)
        assert next_beat(beats, lambda beat: beat.epoch == 3).state is State.COMPILING
        activity.begin_batches()
        activity.end_batches(trained=5)
        activity.pace(rate=10.0, busy=0.5, step_seconds=0.75)
        told = next_beat(beats, lambda beat: beat.step == 5)
        assert (told.state, told.limit) == (State.STEP, 600.0)
    # The state as it is written by the thread, later than it is told.
    heartbeat.finish(State.FINISHED)
    last = next_beat(beats, lambda beat: beat.state is State.FINISHED)
    assert (last.rate, last.busy, last.step_seconds, last.step, last.limit) == (10.0, 0.5, 0.75, 5, None)
    assert WorkerState.read(tmp_path / "state.json") == last


@pytest.mark.usefixtures("heartbeat")
def test_an_execution_of_several_steps_is_told_while_it_runs(activity: ActivityTracker, beats: Beats) -> None:
    with activity.calling("fit"):
        activity.begin_batches(training=9)
        assert next_beat(beats, lambda beat: beat.begun == 9).step == 0
        activity.end_batches(trained=9)
        assert next_beat(beats, lambda beat: beat.step == 9).begun == 9


@pytest.mark.usefixtures("heartbeat")
def test_a_long_callback_is_seen_while_it_lasts(activity: ActivityTracker, beats: Beats) -> None:
    with activity.calling("fit"):
        activity.begin_batches()
        activity.end_batches(trained=1)
        next_beat(beats, lambda beat: beat.state is State.CALLBACK)


def test_tells_nothing_while_nothing_moves(tmp_path: Path, heartbeat: Heartbeat, beats: Beats) -> None:
    beats.get_nowait()
    written = WorkerState.read(tmp_path / "state.json")
    assert written is not None
    # The file is written all the same, so that people see that the worker lives.
    until(lambda: (again := WorkerState.read(tmp_path / "state.json")) is not None and again.time > written.time)
    assert beats.empty()


def test_says_nothing_after_its_last_word(
    tmp_path: Path, activity: ActivityTracker, heartbeat: Heartbeat, beats: Beats
) -> None:
    heartbeat.finish(State.FAILED)
    next_beat(beats, lambda beat: beat.state is State.FAILED)
    activity.move()
    with pytest.raises(queue.Empty):
        beats.get(timeout=1.5)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.usefixtures("heartbeat")
def test_counts_from_where_an_earlier_attempt_stopped(activity: ActivityTracker, beats: Beats) -> None:
    activity.resume(epoch=2, step=40)
    with activity.calling("fit"):
        activity.begin_batches()
        activity.end_batches(trained=1)
    assert next_beat(beats, lambda beat: beat.step == 41).epoch == 2


def test_a_disk_that_takes_no_state_does_not_end_the_worker(
    tmp_path: Path, activity: ActivityTracker, beats: Beats, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    try:
        heartbeat = Heartbeat(tmp_path / "absent" / "state.json", assignment(tmp_path), activity, beats.put)
        heartbeat.finish(State.FINISHED)
    finally:
        logger.removeHandler(caplog.handler)
    assert [beats.get_nowait().state for _ in range(2)] == [State.STARTING, State.FINISHED]
    (said,) = {id(record): record.getMessage() for record in caplog.records}.values()
    assert said.startswith("The state file cannot be written")
