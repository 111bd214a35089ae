"""How far a run is, from what its callbacks and the tracker of its activity know.

The time that is left of an epoch and of a run.
"""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.launch.run_progress import RunProgress
from tfdist.order.epoch_span import EpochSpan
from tfdist.rundir import State
from tfdist.training.config_run.epoch_progress import (
    EpochSize,
    EpochState,
    Pace,
    ProgressCallback,
    TimeLeft,
    progress_of,
    time_left,
)
from tfdist.training.config_run.input_report import InputWait
from tfdist.training.supervision.activity_tracker import ActivitySnapshot


def test_the_running_epoch() -> None:
    callback = ProgressCallback(2, EpochSpan(64, 32), announce=lambda line: None)
    assert callback.state is None
    callback.on_epoch_begin(1)
    state = callback.state
    assert state is not None and (state.epoch, state.logs, state.last_step, state.rest) == (1, {}, None, 0.0)
    callback.on_train_batch_end(0, {"loss": 0.5})
    callback.on_test_batch_end(4, {"loss": 0.75})
    state = callback.state
    assert state is not None and (state.logs, state.validated) == ({"loss": 0.5}, 5)
    assert state.last_step is not None
    callback.on_epoch_end(1, {"loss": 0.5})
    callback.on_epoch_begin(2)
    state = callback.state
    assert state is not None and (state.epoch, state.logs, state.validated, state.last_step) == (2, {}, 0, None)
    assert state.rest > 0  # the end of the epoch before
    assert callback.first == 1


SIZE = EpochSize(epochs=3, steps=10, validation_steps=4)
WAIT = InputWait(seconds=10.0, waited=1.0, busy=1.0)


def progress(seen: EpochState, size: EpochSize = SIZE, **activity: Any) -> RunProgress:
    known = {"state": State.STEP, "epoch": 0, "step": 0, "begun": 0, "moves": 0, "quiet": 0.0, "limit": None}
    known |= {"rate": 64.0, "busy": 0.0, "step_seconds": 0.5, "calls": 1, "call": "fit"}
    snapshot = ActivitySnapshot(**{**known, **activity})
    return progress_of(size, seen, snapshot, WAIT, now=100.0)


def test_in_the_middle_of_an_epoch() -> None:
    told = progress(EpochState(1, {"loss": 0.5}, rest=3.0, last_step=99.9), step=14)
    assert told == RunProgress(
        State.STEP, 1, 3, 4, 10, {"loss": "0.5000"}, rate=64.0, waited=0.1, epoch_left=6.0, run_left=14.0,
        validation_steps=4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("epoch", "step", "shown"),
    [(0, 0, 0), (0, 7, 7), (1, 17, 7), (2, 30, 10), (1, 9, 0), (1, 21, 10)],
)
def test_the_steps_are_those_of_this_epoch(epoch: int, step: int, shown: int) -> None:
    """Also where a run resumes in the middle of one, and where the next epoch begins a moment later."""
    assert progress(EpochState(epoch, {}), step=step).step == shown


def test_before_the_first_step_nothing_is_known() -> None:
    told = progress(EpochState(0, {}), state=State.COMPILING, rate=0.0, step_seconds=0.0)
    assert (told.state, told.waited, told.epoch_left, told.run_left) == (State.COMPILING, 0.0, None, None)


def test_the_first_validation_takes_nobody_knows_how_long() -> None:
    state = EpochState(0, {"loss": 0.5}, validated=1, last_step=99.0)
    assert progress(state, state=State.EVALUATING, step=10).epoch_left is None


def test_a_later_validation_takes_as_long_as_the_last() -> None:
    told = progress(
        EpochState(1, {"loss": 0.5}, validated=1, rest=3.0, last_step=99.0), state=State.EVALUATING, step=20
    )
    assert (told.state, told.validated, told.epoch_left, told.run_left) == (State.EVALUATING, 1, 2.0, 10.0)


@pytest.mark.parametrize(
    ("pace", "options", "left"),
    [
        (Pace(0.5), {"done": 4, "epochs_after": 2}, TimeLeft(3.0, 13.0)),
        (Pace(0.5, 2.0), {"done": 4, "epochs_after": 2}, TimeLeft(5.0, 19.0)),
        (Pace(0.5, 2.0), {"done": 10, "epochs_after": 1, "resting": 1.5}, TimeLeft(0.5, 7.5)),
        # A validation that takes longer than the last one is not over before it ends.
        (Pace(0.5, 2.0), {"done": 10, "epochs_after": 0, "resting": 3.0}, TimeLeft(0.0, 0.0)),
    ],
)
def test_time_left(pace: Pace, options: dict[str, Any], left: TimeLeft) -> None:
    assert time_left(pace, steps=10, **options) == left
