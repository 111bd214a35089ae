"""The callback that makes the checkpoints of a run from a config, and resumes it with the states of its callbacks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfdist.checkpoint import CheckpointManager, CheckpointSummary, SavePolicy
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback, ContextFactory, Logs

_CALLBACKS, _STOPPED = "callbacks", "stopped"


class RunCheckpointCallback(CheckpointCallback):
    """Stands last among the callbacks of a run's `fit`, on every worker; see `CheckpointCallback` for the arguments."""

    ignores_batches = True

    def __init__(
        self,
        checkpoints: CheckpointManager,
        policy: SavePolicy,
        base_summary: CheckpointSummary,
        steps: int,
        record: Callable[[], Mapping[str, Any]],
        resumed: CheckpointSummary | None,
        strategy: tf.distribute.Strategy,
        saving: ContextFactory = contextlib.nullcontext,
        given: Sequence[Any] = (),
    ) -> None:
        super().__init__(checkpoints, policy, base_summary, steps, self._run_record, resumed, strategy, saving, given)
        self._epochs_record = record

    def on_train_begin(self, logs: Logs = None) -> None:
        super().on_train_begin(logs)
        if self._resumed is not None:
            self._restore_callbacks(self._resumed.record.get(_CALLBACKS, {}))

    def _run_record(self) -> dict[str, Any]:
        is_stopped = bool(self.model.stop_training) and not self._position.step
        return {**self._epochs_record(), _CALLBACKS: self._states, _STOPPED: is_stopped}


def was_stopped(summary: CheckpointSummary | None) -> bool:
    """Returns whether a callback had ended the training with the epoch of this checkpoint."""
    return summary is not None and bool(summary.record.get(_STOPPED))
