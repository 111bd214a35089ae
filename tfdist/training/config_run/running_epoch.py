"""The running epoch of a run from a config: how far it is, as another thread may ask at any time.

Time that is left of an epoch and of a run, from the pace so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tfdist.launch.progress.run_progress import RunProgress
from tfdist.training.config_run.input_wait import InputWait
from tfdist.training.config_run.metric_texts import metric_texts
from tfdist.training.metric_values import numbers
from tfdist.training.supervision.activity_tracker import ActivitySnapshot


@dataclass(frozen=True)
class EpochSize:
    """The numbers that are the same in every epoch of a run.

    Attributes:
        epochs: Epochs of the run.
        steps: Steps of an epoch.
        validation_steps: Batches of a validation; None without one.
    """

    epochs: int
    steps: int
    validation_steps: int | None


@dataclass(frozen=True)
class EpochState:
    """The state of the running epoch, as callbacks have seen it.

    Attributes:
        epoch: Its number, from 0.
        logs: Of one of its last batches, over all replicas.
        validated: Batches of its validation that are done.
        rest: Seconds of an epoch besides its steps, so far.
        last_step: When its last step ended, by `clock` of the caller; None before the first.
    """

    epoch: int
    logs: Mapping[str, float]
    validated: int = 0
    rest: float = 0.0
    last_step: float | None = None


def progress_of(
    size: EpochSize,
    state: EpochState,
    activity: ActivitySnapshot,
    wait: InputWait,
    now: float,
    gpu_memory: Callable[[], int | None] = lambda: None,
) -> RunProgress:
    """Returns how far the run is.

    Args:
        size: What is the same in every epoch.
        state: What callbacks have seen.
        activity: What this worker does.
        wait: How long the steps of this epoch have waited for data.
        now: The time, by the clock of `state`.
        gpu_memory: Bytes in use on the fullest GPU; None without one.
    """
    # The activity counts what has run, of which callbacks may hear later: several steps run in one execution.
    done = min(size.steps, max(0, activity.step - state.epoch * size.steps))
    left = _left(size, state, activity, done, now)
    return RunProgress(
        state=activity.state,
        epoch=state.epoch,
        epochs=size.epochs,
        step=done,
        steps=size.steps,
        metrics=metric_texts(numbers(state.logs)),
        rate=activity.rate,
        waited=0.0 if state.last_step is None else wait.share,
        epoch_left=None if left is None else left.epoch,
        run_left=None if left is None else left.run,
        validated=state.validated,
        validation_steps=size.validation_steps,
        gpu_memory=gpu_memory(),
    )


def _left(size: EpochSize, state: EpochState, activity: ActivitySnapshot, done: int, now: float) -> TimeLeft | None:
    if activity.step_seconds <= 0 or (done >= size.steps and not state.rest):
        return None
    resting = 0.0 if done < size.steps or state.last_step is None else now - state.last_step
    return time_left(
        Pace(activity.step_seconds, state.rest),
        steps=size.steps,
        done=done,
        epochs_after=size.epochs - state.epoch - 1,
        resting=resting,
    )


@dataclass(frozen=True)
class Pace:
    """The speed of a run.

    Attributes:
        step: Seconds of a step, over the last steps.
        rest: Seconds of an epoch besides its steps: the validation, saves and callbacks at its end; 0 until an epoch
            has ended.
    """

    step: float
    rest: float = 0.0


@dataclass(frozen=True)
class TimeLeft:
    """The time that is left, in seconds.

    Attributes:
        epoch: Of the epoch.
        run: Of the run.
    """

    epoch: float
    run: float


def time_left(pace: Pace, *, steps: int, done: int, epochs_after: int, resting: float = 0.0) -> TimeLeft:
    """The time that is left.

    Args:
        pace: How fast the run is.
        steps: Steps of an epoch.
        done: Those of this epoch that are done.
        epochs_after: Epochs after this one.
        resting: Seconds since the last step of this epoch; 0 while there are steps to do.
    """
    epoch = max(0, steps - done) * pace.step + max(0.0, pace.rest - resting)
    return TimeLeft(epoch, epoch + epochs_after * (steps * pace.step + pace.rest))
