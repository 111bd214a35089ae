"""The callback that prints a line an epoch, and measures speed and waits for data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import keras

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.order.epoch_span import EpochSpan
from tfdist.training.config_run.input_wait import InputWait, InputWaitClock
from tfdist.training.config_run.metric_texts import metrics_line
from tfdist.training.config_run.running_epoch import EpochState
from tfdist.training.metric_values import numbers


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
