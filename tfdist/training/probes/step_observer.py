"""Calls on who looks at every execution of training steps: right before it and right after it, in the main thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import keras


class StepObserver(Protocol):
    """Looks at the steps of every `fit` of a process, on every worker."""

    def begin_fit(self, model: keras.Model, epoch_steps: int | None) -> None:
        """Before the first step, with a model that is built and compiled; the steps of an epoch, where Keras knows."""

    def begin_epoch(self) -> None:
        """Before the steps of an epoch."""

    def begin_steps(self, model: keras.Model, batch: int) -> None:
        """Before an execution, which begins with this batch of the epoch."""

    def end_steps(self, model: keras.Model, logs: Any) -> None:
        """After an execution and before any callback hears of it; what it raises ends the `fit`."""

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """After an epoch with its evaluation, numbered from 0."""

    def end_fit(self, model: keras.Model) -> None:
        """After the last step."""


class StepObserverCallback(keras.callbacks.Callback):
    """Tells a looker of one `fit`; of `evaluate` and `predict` it tells nothing."""

    def __init__(self, looker: StepObserver) -> None:
        super().__init__()
        self._looker = looker

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._looker.begin_fit(self.model, (self.params or {}).get("steps"))
        # Not by a callback: Keras may tell of a batch's end in a thread, while the next step is already under way.
        self.model.train_function = _Seen(_unseen(self.model.train_function), self._looker, self.model)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._looker.begin_epoch()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._looker.begin_steps(self.model, batch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._looker.end_epoch(epoch, logs or {})

    def on_train_end(self, logs: dict | None = None) -> None:
        self.model.train_function = _unseen(self.model.train_function)
        self._looker.end_fit(self.model)


class _Seen:
    """What Keras calls with an iterator for one step, or several that run at once, and the looker after it."""

    def __init__(self, execute: Callable[[Any], Any], looker: StepObserver, model: keras.Model) -> None:
        self.execute = execute
        self._looker = looker
        self._model = model

    def __call__(self, iterator: Any) -> Any:
        logs = self.execute(iterator)
        self._looker.end_steps(self._model, logs)
        return logs


def _unseen(execute: Any) -> Any:
    """What an earlier `fit` that raised may have left wrapped."""
    return execute.execute if isinstance(execute, _Seen) else execute
