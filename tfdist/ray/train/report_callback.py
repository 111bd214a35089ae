"""Callbacks for the `fit` of a training function: reports to Ray, beside tfdist's record and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import ray.train

from tfdist.rundir.temp_names import temporary_folder
from tfdist.training.api import callbacks as run_callbacks
from tfdist.training.api import is_chief
from tfdist.training.metric_values import numbers

MODEL_FILE = "model.keras"
"""In each of Ray's checkpoints."""


class ReportCallback(keras.callbacks.Callback):
    """Reports each epoch's metrics to Ray, with the model as Ray's checkpoint; give it to `fit` on every worker."""

    def __init__(self, *, model: bool = True) -> None:
        super().__init__()
        self._has_model = model

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        metrics = {"epoch": epoch, **numbers(logs or {})}
        if not self._has_model:
            ray.train.report(metrics)
            return
        with temporary_folder("ray") as folder:
            # On all workers, as parts of a model may lie on each; the chief writes.
            self.model.save(folder / MODEL_FILE)
            checkpoint = ray.train.Checkpoint.from_directory(str(folder)) if is_chief() else None
            ray.train.report(metrics, checkpoint=checkpoint)


def callbacks(
    *, every_steps: int | None = None, every_minutes: float | None = 10.0, keep: int = 3, model: bool = True
) -> list[keras.callbacks.Callback]:
    """Callbacks for a `fit` in the training function of `tfdist.ray.Trainer`; give them on every worker.

    Each epoch is reported to Ray with its metrics, and with the model as Ray's checkpoint, `model.keras`. Beside that,
    tfdist's own checkpoints lie in Ray's storage, from which the `fit` resumes at its next step when Ray has restarted
    the workers. Without these callbacks there are tfdist's checkpoints alone, and no reports.

    Args:
        every_steps: A checkpoint of tfdist's after each multiple of so many steps, besides at the end of every epoch.
        every_minutes: One when the last is so old; None for none.
        model: Whether Ray gets a checkpoint with each report.

    Raises:
        UsageError: A number is not positive, or no Trainer has started this process.
    """
    own = run_callbacks(every_steps=every_steps, every_minutes=every_minutes, keep=keep)
    return [*own, ReportCallback(model=model)]
