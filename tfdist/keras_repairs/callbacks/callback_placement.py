"""On which workers a callback runs: where its user has marked it to, else files are written on the chief alone."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import keras

from tfdist.errors import UsageError
from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.callbacks.library_callbacks import only_writes

Placement = Literal["every worker", "chief"]
_PLACEMENT: AttachedValue[Placement] = AttachedValue("placement")

WRITERS = (keras.callbacks.CSVLogger, keras.callbacks.TensorBoard, keras.callbacks.RemoteMonitor)
"""Keras's callbacks that only write, to a file or to a server, and leave model and training alone."""

_TAKES_ALL = (keras.callbacks.BackupAndRestore, keras.callbacks.SwapEMAWeights)
"""Keras's callbacks that change the model's weights, which must be the same on every worker."""

AnyCallback = TypeVar("AnyCallback", bound=keras.callbacks.Callback)


def on_every_worker(callback: AnyCallback) -> AnyCallback:
    """Marks a callback to run on every worker, also where its kind runs on the chief alone.

    What it writes must have another name on each worker:
    `tfdist.on_every_worker(keras.callbacks.CSVLogger(f"log-{tfdist.worker_index()}.csv"))`.

    Returns:
        The callback itself. On one worker the mark changes nothing.

    Raises:
        UsageError: `callback` is no Keras callback.
    """
    return _place(callback, "every worker", "on_every_worker")


def on_chief(callback: AnyCallback) -> AnyCallback:
    """Marks a callback to run on the chief alone. What it decides (`model.stop_training`, the learning rate) is shared.

    It must call nothing in which all workers take part (`fit`, `evaluate`, `predict`, `tfdist.barrier` and its kin),
    and must not change weights: the other workers would not come, or not know.

    Returns:
        The callback itself. On one worker the mark changes nothing.

    Raises:
        UsageError: `callback` is no Keras callback, or one of Keras's or tfdist's that changes weights.
    """
    if isinstance(callback, _TAKES_ALL) or getattr(callback, "changes_weights", False):
        raise UsageError(
            "tfdist.on_chief(...) takes a callback that can run on the chief alone. Received: "
            f"{type(callback).__name__}, which changes the weights of the model and so belongs on every worker. Pass "
            "it to fit as it is."
        )
    return _place(callback, "chief", "on_chief")


def runs_here(callback: Any, is_chief: bool) -> bool:
    """Returns whether a callback that all workers were given runs on this one."""
    if is_chief:
        return True
    placement = _PLACEMENT.get(callback)
    if placement:
        return placement == "every worker"
    return not isinstance(callback, WRITERS) and not only_writes(callback)


def _place(callback: AnyCallback, placement: Placement, function: str) -> AnyCallback:
    if not isinstance(callback, keras.callbacks.Callback):
        raise UsageError(
            f"tfdist.{function}(...) takes one keras.callbacks.Callback. Received: {type(callback).__name__}. Mark "
            "each callback by itself."
        )
    _PLACEMENT.set(callback, placement)
    return callback
