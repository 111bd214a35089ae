"""Monitor of a worker's training: tracks its activity and pace, and stops it where the launcher asks for that.

Step rate of a worker: how fast it trains, over its last steps.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import keras

from tfdist.keras_repairs.loop.fit_listeners import TrainerMethod
from tfdist.runtime.step_meter import StepMeter
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.stop_requests import StopRequests

MARK_SECONDS = 0.25
"""Between two readings of the meter: each costs some tens of microseconds."""
STEPS = 50
SECONDS = 5.0
"""Figures are means over so many steps, or over the steps of so many seconds if those are more."""


class TrainingMonitor:
    """Listens to the repaired Keras in the main thread.

    Args:
        activity: Told what the worker does.
        stop_requests: Asked before every execution.
        meter: Counts the samples and waits of the steps.
    """

    def __init__(self, activity: ActivityTracker, stop_requests: StopRequests, meter: StepMeter) -> None:
        self._activity = activity
        self._stop_requests = stop_requests
        self._meter = meter
        self._step_rate = StepRate()
        self._steps = 0
        self._seconds = self._outside = self._outside_since = 0.0
        self._since: float | None = None
        self._marked = 0.0
        self._steps_left: int | None = None

    def callback(self) -> keras.callbacks.Callback:
        """A new callback for one `fit`, `evaluate` or `predict`; it needs no call for each batch."""
        return _Callback(self, self._activity)

    @contextlib.contextmanager
    def calling(self, call: TrainerMethod) -> Iterator[None]:
        """Around a `fit`, `evaluate` or `predict`."""
        trains = call == "fit"
        with (
            self._activity.calling(call),
            self._stop_requests.during_fit() if trains else contextlib.nullcontext(),
        ):
            try:
                yield
            finally:
                self.pause()
                self._steps_left = None if trains else self._steps_left

    def begin_execution(self, call: TrainerMethod, steps: int) -> None:
        """Batches are about to run.

        Raises:
            WorkerStopped: All workers stop here.
        """
        if call != "predict":
            self._stop_requests.begin_batches(steps)
        self._activity.begin_batches(steps if call == "fit" else 0)
        if call == "fit" and self._since is None:
            self._since = time.perf_counter()
            self._outside_since = self._meter.waited_outside

    def end_execution(self, call: TrainerMethod, steps: int) -> None:
        """They have run."""
        trained = self._trained(steps) if call == "fit" else 0
        self._activity.end_batches(trained)
        if trained:
            self._mark(trained)
        if call == "fit" and self._steps_left == 0:
            self._activity.leave_steps()

    def saving(self) -> contextlib.AbstractContextManager[None]:
        """Around the writing of a model."""
        return self._activity.saving()

    def callback_done(self) -> None:
        """A callback is done."""
        self._activity.move()

    def begin_epoch(self, epoch: int, steps: int | None) -> None:
        """An epoch begins, counted from 0, of so many steps where that is known."""
        self.pause()
        self._steps_left = steps
        self._activity.begin_epoch(epoch)

    def pause(self) -> None:
        """Pauses the steps until the next training batch: an evaluation or an epoch's end is no part of them."""
        self._since = None
        self._activity.leave_steps()

    def _trained(self, steps: int) -> int:
        """Steps of an execution; on one replica the last one of an epoch may have fewer than Keras was asked for."""
        if self._steps_left is not None:
            steps = min(steps, self._steps_left)
            self._steps_left -= steps
        return steps

    def _mark(self, steps: int) -> None:
        now = time.perf_counter()
        self._steps += steps
        outside = self._meter.waited_outside
        self._seconds += now - (now if self._since is None else self._since)
        self._outside += outside - self._outside_since
        self._since, self._outside_since = now, outside
        if now - self._marked >= MARK_SECONDS:
            self._marked = now
            reading = self._meter.read()
            self._activity.wait_for_data(reading.fetched)
            self._step_rate.add(StepMark(self._steps, self._seconds, reading.samples, reading.waited + self._outside))
            self._activity.pace(self._step_rate.rate(), self._step_rate.busy(), self._step_rate.step_seconds())


class _Callback(keras.callbacks.Callback):
    async_safe = True
    ignores_batches = True

    def __init__(self, monitor: TrainingMonitor, activity: ActivityTracker) -> None:
        super().__init__()
        self._monitor = monitor
        self._activity = activity

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._monitor.begin_epoch(epoch, (self.params or {}).get("steps"))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._activity.move()

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._activity.move()

    def on_train_end(self, logs: dict | None = None) -> None:
        self._activity.move()


@dataclass(frozen=True)
class StepMark:
    """Totals at the end of a batch.

    Attributes:
        steps: Training batches.
        seconds: Seconds spent in them and between two of them.
        samples: Samples of their global batches.
        waited: Seconds of those that were spent waiting for other workers.
    """

    steps: int
    seconds: float
    samples: float
    waited: float


class StepRate:
    """Computes rates from the marks of the last steps."""

    def __init__(self) -> None:
        self._marks: deque[StepMark] = deque()

    def add(self, mark: StepMark) -> None:
        """Adds a mark later than all others."""
        self._marks.append(mark)
        while len(self._marks) > 2 and _spans_enough(self._marks[1], mark):
            self._marks.popleft()

    def rate(self) -> float:
        """Samples of the global batch a second; 0 while unknown."""
        span = self._span()
        return span.samples / span.seconds if span.seconds > 0 else 0.0

    def busy(self) -> float:
        """Seconds a step, without those of waiting for other workers; 0 while unknown, or where there is no waiting."""
        span = self._span()
        if not span.steps or not self._marks[-1].waited:
            return 0.0
        return max(0.0, span.seconds - span.waited) / span.steps

    def step_seconds(self) -> float:
        """Seconds a step, of its own and of waiting; 0 while unknown."""
        span = self._span()
        return span.seconds / span.steps if span.steps else 0.0

    def _span(self) -> StepMark:
        if len(self._marks) < 2:
            return StepMark(0, 0.0, 0.0, 0.0)
        first, last = self._marks[0], self._marks[-1]
        return StepMark(
            last.steps - first.steps,
            last.seconds - first.seconds,
            last.samples - first.samples,
            last.waited - first.waited,
        )


def _spans_enough(first: StepMark, last: StepMark) -> bool:
    return last.steps - first.steps >= STEPS and last.seconds - first.seconds >= SECONDS
