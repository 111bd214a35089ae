"""Observer of training steps: called right before and right after every execution, in the main thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import keras


class StepObserver(Protocol):
    """Observes the steps of every `fit` of a process, on every worker."""

    def begin_fit(self, model: keras.Model, epoch_steps: int | None) -> None:
        """Before the first step, with a built and compiled model; the steps of an epoch, where Keras knows them."""

    def begin_epoch(self) -> None:
        """Before the steps of an epoch."""

    def begin_steps(self, model: keras.Model, batch: int) -> None:
        """Before an execution that begins with this batch of the epoch."""

    def end_steps(self, model: keras.Model, logs: Any) -> None:
        """After an execution, before any callback is called; what it raises ends the `fit`."""

    def end_epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """After an epoch with its evaluation, numbered from 0."""

    def end_fit(self, model: keras.Model) -> None:
        """After the last step."""


class StepObserverCallback(keras.callbacks.Callback):
    """Calls an observer during one `fit`; not during `evaluate` and `predict`."""

    def __init__(self, observer: StepObserver) -> None:
        super().__init__()
        self._observer = observer

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._observer.begin_fit(self.model, (self.params or {}).get("steps"))
        # Not by a callback: Keras may call it in a thread, while the next step is already under way.
        self.model.train_function = _ObservedFunction(_unwrapped(self.model.train_function), self._observer, self.model)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._observer.begin_epoch()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._observer.begin_steps(self.model, batch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self._observer.end_epoch(epoch, logs or {})

    def on_train_end(self, logs: dict | None = None) -> None:
        self.model.train_function = _unwrapped(self.model.train_function)
        self._observer.end_fit(self.model)


class _ObservedFunction:
    """Keras's train function, of one step or several at once, with a call of the observer after it."""

    def __init__(self, execute: Callable[[Any], Any], observer: StepObserver, model: keras.Model) -> None:
        self.execute = execute
        self._observer = observer
        self._model = model

    def __call__(self, iterator: Any) -> Any:
        logs = self.execute(iterator)
        self._observer.end_steps(self._model, logs)
        return logs


def _unwrapped(execute: Any) -> Any:
    """The function that an earlier `fit` that raised may have left wrapped."""
    return execute.execute if isinstance(execute, _ObservedFunction) else execute
