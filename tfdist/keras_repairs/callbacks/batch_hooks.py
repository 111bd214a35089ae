"""At which batches a callback acts, read off the methods that it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import keras

from tfdist.keras_repairs.callbacks.library_callbacks import only_writes

_WATCHING = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")

Phase = Literal["begin", "train", "test", "predict"]
_DECIDING: dict[Phase, tuple[str, ...]] = {
    "begin": ("on_train_batch_begin", "on_batch_begin"),
    "train": ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end"),
    # What they set before the first batch is still read after it.
    "test": ("on_test_begin", "on_test_batch_begin", "on_test_batch_end"),
    "predict": ("on_predict_begin", "on_predict_batch_begin", "on_predict_batch_end"),
}
_KNOWN = ("keras.", "tfdist.")
"""Modules whose callbacks are known to stop nothing in these methods."""


def any_watches(callbacks: Iterable[Any]) -> bool:
    """Returns whether one of `callbacks` looks at training batches."""
    return any(_watches_batches(callback) for callback in callbacks)


def any_reads_test_logs(callbacks: Iterable[Any]) -> bool:
    """Returns whether one of `callbacks` is given the logs of batches of an evaluation."""
    return any(_has_own(callback, "on_test_batch_end") for callback in callbacks if not _ignores_batches(callback))


def any_reads_logs_periodically(callbacks: Iterable[Any]) -> bool:
    """Returns whether one of `callbacks` says with `reads_logs_periodically` that it shows some logs of training
    batches."""
    return any(getattr(callback, "reads_logs_periodically", False) for callback in callbacks)


def any_may_stop(callbacks: Iterable[Any], phase: Phase) -> bool:
    """Returns whether one of `callbacks` may decide something at a batch of `phase`, such as to stop.

    Args:
        callbacks: Any callbacks.
        phase: `"train"`, `"test"` or `"predict"`; `"begin"` is what comes before a training batch. One of tfdist's own
            says with `stops_at_batches` that it stops trainings and evaluations.
    """
    return any(
        _is_users(callback, name)
        for callback in callbacks
        # Keras may call such a callback in another thread, too late to stop anything.
        if not getattr(callback, "async_safe", False) and not only_writes(callback)
        for name in _DECIDING[phase]
    ) or any(getattr(callback, "stops_at_batches", False) and phase in ("train", "test") for callback in callbacks)


def _watches_batches(callback: Any) -> bool:
    if _ignores_batches(callback):
        return False
    if isinstance(callback, keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore):
        return callback.save_freq != "epoch"
    return any(_has_own(callback, name) for name in _WATCHING)


def _ignores_batches(callback: Any) -> bool:
    return isinstance(callback, keras.callbacks.ProgbarLogger) or getattr(callback, "ignores_batches", False)


def _has_own(callback: Any, name: str) -> bool:
    return name in vars(callback) or getattr(type(callback), name) is not getattr(keras.callbacks.Callback, name)


def _is_users(callback: Any, name: str) -> bool:
    """Returns whether the user wrote the method: in a class of their own, or as a function given to LambdaCallback."""
    if name in vars(callback):
        return True
    owner = next((cls for cls in type(callback).__mro__ if name in vars(cls)), None)
    return owner is None or not f"{owner.__module__}.".startswith(_KNOWN)
