"""Time that is left of an epoch and of a run, from the pace so far. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How fast a run is.

    Attributes:
        step: Seconds of a step, over the last steps.
        rest: Seconds of an epoch besides its steps: the validation, saves and callbacks at its end; 0 until an epoch
            has ended.
    """

    step: float
    rest: float = 0.0


@dataclass(frozen=True)
class TimeLeft:
    """What is left, in seconds.

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
