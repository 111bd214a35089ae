"""A callback that stops a training at chosen updates of the weights until a test lets it go on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras

from tests.helpers.waiting import until


class StepGate(keras.callbacks.Callback):
    """Waits after one update of each attempt for a file.

    Args:
        folder: Where the files are: `reached-ATTEMPT` is made when the update is done, `open-ATTEMPT` lets it go on.
        updates: After which update of the run, by attempt.
    """

    def __init__(self, folder: str, updates: list[int]) -> None:
        super().__init__()
        self._folder, self._updates = Path(folder), dict(enumerate(updates))
        self._attempt = int(os.environ["TFDIST_ATTEMPT"])
        self._reached = False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._reached or int(self.model.optimizer.iterations) < self._updates.get(self._attempt, 1 << 60):
            return
        self._reached = True
        (self._folder / f"reached-{self._attempt}").touch()
        until((self._folder / f"open-{self._attempt}").exists, otherwise="the test did not let it go on")
