"""On which workers a callback runs, and at which batches it acts, as its methods show.

They are told by name, so that no library needs to be installed. A subclass of the user's own is none of them: it may
call `predict`, in which all workers take part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import keras

from tfdist.errors import UsageError
from tfdist.keras_repairs.base.attached_value import AttachedValue

_WRITERS = {
    "dvclive": {"DVCLiveCallback"},
    "livelossplot": {"PlotLossesCallback"},
    "mlflow": {"MlflowCallback", "MlflowModelCheckpointCallback"},
    "neptune_tensorflow_keras": {"NeptuneCallback"},
    "tqdm": {"TqdmCallback"},
    "wandb": {"WandbMetricsLogger", "WandbModelCheckpoint"},
}
"""The classes of each package."""


def only_writes(callback: Any) -> bool:
    """Returns whether a callback is one of a library's that leave model and training alone."""
    kind = type(callback)
    package, _, _ = kind.__module__.partition(".")
    return kind.__name__ in _WRITERS.get(package, ())


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
