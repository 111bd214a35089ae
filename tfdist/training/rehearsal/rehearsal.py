"""Connects a rehearsal to the repairs of Keras: which callbacks each call gets, and where they write.

The callback that ends the training and each evaluation of a rehearsal after a few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from tfdist.keras_repairs.base.diverted_files import diverted_files
from tfdist.launch.worker_requests import RehearsalRequest

_PLACES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (keras.callbacks.ModelCheckpoint, ("filepath",)),
    (keras.callbacks.CSVLogger, ("filename",)),
    (keras.callbacks.TensorBoard, ("log_dir",)),
    (
        keras.callbacks.BackupAndRestore,
        (
            "backup_dir",
            "_weights_path",
            "_training_metadata_path",
            "_prev_weights_path",
            "_prev_training_metadata_path",
        ),
    ),
)
"""Keras's callbacks that write, and their attributes that say where."""


def begin(request: RehearsalRequest) -> None:
    """Has this process's Keras write into the folder of the rehearsal."""
    diverted_files.folder = Path(request.folder)


def chosen_callbacks(request: RehearsalRequest, given: Sequence[Any]) -> Sequence[Any]:
    """The callbacks of a `fit` or `evaluate`, which write into the folder, and one that ends it after a few steps.

    Where the `fit` is planned there are none: what they do at its beginning may change files.
    """
    if request.plans:
        return []
    for callback in given:
        for kind, names in _PLACES:
            if isinstance(callback, kind):
                _divert(callback, names)
    return [*given, StepLimitCallback(request.steps)]


def _divert(callback: Any, names: Sequence[str]) -> None:
    for name in names:
        value = getattr(callback, name, None)
        if isinstance(value, str | Path):
            setattr(callback, name, diverted_files.place(value))


class StepLimitCallback(keras.callbacks.Callback):
    """Stops after some executions of steps; stands among the callbacks of every worker.

    Args:
        steps: How many.
    """

    stops_at_batches = True

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._most = steps
        self._trained = self._tested = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._trained = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._trained += 1
        if self._trained >= self._most:
            self.model.stop_training = True

    def on_test_begin(self, logs: Any = None) -> None:
        self._tested = 0

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._tested += 1
        if self._tested >= self._most:
            self.model.stop_evaluating = True
