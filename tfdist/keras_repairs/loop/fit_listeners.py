"""Listeners that are notified, in the main thread, of `fit`, `evaluate` and `predict` and of every execution in them.

Callbacks are not enough: Keras may call them late and in a thread, and skips their ends where something raises.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import keras
import tensorflow as tf

from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator
from tfdist.keras_repairs.inputs.host_drawing import handing_batches

Function = Callable[..., Any]
TrainerMethod = Literal["fit", "evaluate", "predict"]


class FitListener(Protocol):
    """A listener. An exception that it raises ends the call that it was notified of."""

    def calling(self, call: TrainerMethod) -> contextlib.AbstractContextManager[None]:
        """Entered around a call of `fit`, `evaluate` or `predict`, which may be inside of another."""

    def begin_execution(self, call: TrainerMethod, steps: int) -> None:
        """`steps` batches are about to run in one execution: part of `call`, or alone where none is under way."""

    def end_execution(self, call: TrainerMethod, steps: int) -> None:
        """They have run."""

    def saving(self) -> contextlib.AbstractContextManager[None]:
        """Entered while a model or its weights are written."""

    def callback_done(self) -> None:
        """A callback is done at the start or end of an epoch or of a `fit`; others may follow."""


class NoListener:
    """A listener that does nothing."""

    def calling(self, call: TrainerMethod) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def begin_execution(self, call: TrainerMethod, steps: int) -> None:
        return

    def end_execution(self, call: TrainerMethod, steps: int) -> None:
        return

    def saving(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def callback_done(self) -> None:
        return


class CallbackProgress(keras.callbacks.Callback):
    """Follows another callback, and notifies the listener when that is done, which may have taken long."""

    async_safe = True

    def __init__(self, listener: FitListener) -> None:
        super().__init__()
        self._listener = listener

    def on_train_begin(self, logs: Any = None) -> None:
        self._listener.callback_done()

    def on_train_end(self, logs: Any = None) -> None:
        self._listener.callback_done()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._listener.callback_done()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._listener.callback_done()


def notifying(
    original: Function, call: TrainerMethod, listener: FitListener, most_epochs: int | None = None
) -> Function:
    """Repairs `TensorFlowTrainer.fit`, `evaluate` and `predict`: the listener is notified of the call.

    Args:
        original: The method.
        call: Its name.
        listener: Notified of the call.
        most_epochs: How many epochs a `fit` has at most; None for as many as it is called with.
    """

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if most_epochs is not None:
            args, kwargs = (), _with_epochs(most_epochs, original, self, args, kwargs)
        state = fit_state(self)
        under_way = state.under_way() if call == "fit" else contextlib.nullcontext()
        handing = handing_batches(self.distribute_strategy)
        with listener.calling(call), under_way, state.reading_logs(), handing:
            return original(self, *args, **kwargs)

    return repaired


def _with_epochs(
    most: int, original: Function, model: Any, args: tuple[Any, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a `fit` by name, with so many epochs at most."""
    bound = inspect.signature(original).bind(model, *args, **given)
    bound.apply_defaults()
    _, *named = bound.arguments.items()
    arguments = dict(named)
    return {**arguments, "epochs": min(arguments["epochs"], arguments["initial_epoch"] + most)}


def run_notifying(listener: FitListener, call: TrainerMethod, steps: int, run: Callable[[], Any]) -> Any:
    """Runs `run`, which executes `steps` steps, and notifies the listener; returns what it returns."""
    listener.begin_execution(call, steps)
    outputs = run()
    listener.end_execution(call, steps)
    return outputs


def notifying_executions(function: Function, model: Any, call: TrainerMethod, listener: FitListener) -> Function:
    """The function that Keras calls with an iterator, on one replica, for every `steps_per_execution` steps."""

    def execute(iterator: Any) -> Any:
        several = isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator | BatchIterator)
        steps = model.steps_per_execution if several else 1
        return run_notifying(listener, call, steps, lambda: function(iterator))

    return execute


def notifying_predictions(function: Function, listener: FitListener) -> Function:
    """The function that Keras calls with a list of batches to predict."""

    def execute(batches: Any) -> Any:
        return run_notifying(listener, "predict", len(batches), lambda: function(batches))

    return execute
