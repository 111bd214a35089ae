"""The callback that ends the training and each evaluation of a rehearsal after a few steps."""

from __future__ import annotations

from typing import Any

import keras


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
