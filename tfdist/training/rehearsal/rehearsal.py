"""Connects a rehearsal to the repairs of Keras: which callbacks each call gets, and where they write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from tfdist.keras_repairs.base.diverted_files import diverted_files
from tfdist.launch.rehearsal.rehearsal_request import RehearsalRequest
from tfdist.training.rehearsal.step_limit import StepLimitCallback

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
