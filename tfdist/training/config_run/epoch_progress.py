"""The running epoch of a run from a config: how far it is, and the line that is printed at its end.

Time that is left of an epoch and of a run, from the pace so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import keras

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.launch.run_progress import RunProgress
from tfdist.order.epoch_span import EpochSpan
from tfdist.training.config_run.input_report import InputWait, InputWaitClock
from tfdist.training.metric_values import metric_texts, metrics_line, numbers
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


class ProgressCallback(keras.callbacks.Callback):
    """Prints one line an epoch with its metrics, the samples a second and how much of its time waited for data.

    Args:
        epochs: How many epochs the run has.
        span: Steps and samples of an epoch.
        before: Steps of this process's first epoch that were trained before it started.
        fetched: Seconds that training steps have waited for data since the process began.
        announce: Says a line.
    """

    ignores_batches = True
    reads_logs_periodically = True

    def __init__(
        self,
        epochs: int,
        span: EpochSpan,
        before: int = 0,
        fetched: Callable[[], float] = lambda: 0.0,
        announce: Callable[[str], None] = print,
    ) -> None:
        super().__init__()
        self._announce = announce
        self._epochs = epochs
        self._span = span
        self._before = before
        self._clock = InputWaitClock(fetched)
        self._rates: list[float] = []
        self._waits: list[InputWait] = []
        self._first: int | None = None
        self._epoch: int | None = None
        self._logs: Mapping[str, float] | None = None
        self._validated, self._rest = 0, 0.0

    @property
    def first(self) -> int:
        """The first epoch that this process has trained, from 0."""
        return self._first or 0

    @property
    def state(self) -> EpochState | None:
        """The known state of the running epoch, at any time and in any thread; None before the first one."""
        if self._epoch is None:
            return None
        logs = self._logs
        last_step = None if logs is None else self._clock.last
        return EpochState(self._epoch, logs or {}, self._validated, self._rest, last_step)

    def running_wait(self) -> InputWait:
        """The wait for data of the running epoch so far; in any thread."""
        return self._clock.end()

    @property
    def samples_per_second(self) -> float:
        """The median over the epochs after the first, which compiles; over all when there is only one."""
        rates = sorted(self._rates[1:] or self._rates)
        return rates[len(rates) // 2] if rates else 0.0

    @property
    def wait(self) -> InputWait | None:
        """The epoch with the median wait for data, of the same epochs."""
        waits = sorted(self._waits[1:] or self._waits, key=lambda wait: wait.share)
        return waits[len(waits) // 2] if waits else None

    @property
    def _has_several_replicas(self) -> bool:
        return self.model is not None and self.model.distribute_strategy.num_replicas_in_sync > 1

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._first = epoch if self._first is None else self._first
        # Saves of a checkpoint come after this callback's own end of the epoch, and belong to its rest.
        self._rest = 0.0 if self._logs is None else time.perf_counter() - self._clock.last
        self._logs, self._validated = None, 0
        if self._has_several_replicas:
            fit_state(self.model).periodic_logs = None
        self._epoch = epoch
        self._clock.begin()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self._clock.step()
        # Those of the step are its first replica's: the others' are read periodically.
        self._logs = (fit_state(self.model).periodic_logs if self._has_several_replicas else logs) or {}

    def on_test_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self._validated = batch + 1

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        wait = self._clock.end()
        rate = self._span.samples(epoch, self._before) / wait.seconds
        self._before = 0
        self._rates.append(rate)
        self._waits.append(wait)
        width = len(str(self._epochs))
        waited = f"  input {100 * wait.share:.0f} %" if wait.waited else ""
        metrics = metrics_line(numbers(logs or {}))
        self._announce(f"epoch {epoch + 1:{width}}/{self._epochs}  {metrics}  {rate:,.0f} samples/s{waited}")
