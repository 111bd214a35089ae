"""The callback that prints a line an epoch, and measures speed and waits for data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import keras

from tfdist.training.config_run.input_wait import InputWait, InputWaitClock
from tfdist.training.metric_values import numbers


class ProgressCallback(keras.callbacks.Callback):
    """Prints one line an epoch with its metrics, the samples a second and how much of its time waited for data.

    Args:
        epochs: How many epochs the run has.
        samples: Samples of one epoch.
        before: Samples of this process's first epoch that were trained before it started.
        fetched: Seconds that training steps have waited for data since the process began.
        announce: Says a line.
    """

    ignores_batches = True

    def __init__(
        self,
        epochs: int,
        samples: int,
        before: int = 0,
        fetched: Callable[[], float] = lambda: 0.0,
        announce: Callable[[str], None] = print,
    ) -> None:
        super().__init__()
        self._announce = announce
        self._epochs = epochs
        self._samples = samples
        self._before = before
        self._clock = InputWaitClock(fetched)
        self._rates: list[float] = []
        self._waits: list[InputWait] = []

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

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._clock.begin()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self._clock.step()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        wait = self._clock.end()
        rate = max(0, self._samples - self._before) / wait.seconds
        self._before = 0
        self._rates.append(rate)
        self._waits.append(wait)
        width = len(str(self._epochs))
        waited = f"  input {100 * wait.share:.0f} %" if wait.waited else ""
        metrics = metrics_line(numbers(logs or {}))
        self._announce(f"epoch {epoch + 1:{width}}/{self._epochs}  {metrics}  {rate:,.0f} samples/s{waited}")


def metrics_line(values: Mapping[str, float]) -> str:
    """`loss 0.1234  accuracy 0.9812`: the metrics of one epoch, training before validation."""
    ordered = sorted(values, key=lambda name: (name.startswith("val_"), not name.endswith("loss")))
    return "  ".join(f"{name} {values[name]:.4f}" for name in ordered)
