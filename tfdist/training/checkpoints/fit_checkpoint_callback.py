"""The callback that keeps one `fit` of a script, and with which another `fit` goes on from what was kept."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.checkpoint import CheckpointManager, CheckpointSummary, SavePolicy
from tfdist.errors import UsageError
from tfdist.keras_repairs.base import training_state
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.inputs import data_position
from tfdist.keras_repairs.inputs.data_position import FitData
from tfdist.training.checkpoints import callback_state, csv_logger_files
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback, ContextFactory, Logs
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions
from tfdist.training.checkpoints.checkpoint_schedule import CheckpointSchedule
from tfdist.training.checkpoints.fit_resume_checks import (
    check_executions,
    check_optimizers,
    check_place,
    check_same_data,
    not_within_epochs,
)
from tfdist.training.run_record_callback import RunRecordCallback

_log = logging.getLogger("tfdist")


@dataclass(frozen=True)
class RegisteredFit:
    """One `fit` of a script, as its checkpoints know it.

    Attributes:
        number: Among those that are kept in the same directory, from 0.
        keeping: How it is kept.
        checkpoints: Its own.
        after: The mark of the checkpoint that the one before ended with; empty for the first.
        resumed: The checkpoint that it goes on from; None where it begins.
    """

    number: int
    keeping: CheckpointOptions
    checkpoints: CheckpointManager
    after: str = ""
    resumed: CheckpointSummary | None = None

    @property
    def policy(self) -> SavePolicy:
        """When its checkpoints are made, besides the ends of epochs."""
        minutes = self.keeping.every_minutes
        return SavePolicy(self.keeping.every_steps, None if minutes is None else minutes * 60.0)


class FitCheckpointCallback(CheckpointCallback):
    """Stands last among the callbacks of a `fit`, on every worker.

    Args:
        fit: Which.
        given: The other callbacks of this worker.
        record: What writes the record of the `fit`, if any.
        facts: The summary of each checkpoint, but for what only a running `fit` knows.
        strategy: The process's strategy.
        begun: Called when the `fit` has something to train.
        ended: Called at its end with the mark of its last checkpoint and with its steps.
        saving: Entered while the training waits for a checkpoint.
    """

    ignores_batches = True

    def __init__(
        self,
        fit: RegisteredFit,
        given: Sequence[Any],
        record: RunRecordCallback | None,
        facts: CheckpointSummary,
        strategy: tf.distribute.Strategy,
        begun: Callable[[], None],
        ended: Callable[[str, int], None],
        saving: ContextFactory = contextlib.nullcontext,
    ) -> None:
        super().__init__(fit.checkpoints, fit.policy, facts, 0, self._kept, fit.resumed, strategy, saving)
        self._fit = fit
        self._given = given
        self._file = record
        self._begun = begun
        self._ended = ended
        self._data: FitData | None = None
        self._before = 0
        self._first_epoch: int | None = None
        self._states: dict[str, Any] = {}
        self._log_sizes: list[int | None] = []
        self._mark = ""

    def on_train_begin(self, logs: Logs = None) -> None:
        iterator = fit_state(self.model).take_iterator()
        if iterator is None:
            # A loop of the script's own, which no checkpoint can go on with.
            return
        self._data = data = data_position.describe(iterator)
        self._steps = data.steps or 0
        self._facts = dataclasses.replace(self._facts, batch_size=data.batch_size, samples=data.samples)
        if data.why_not:
            self._due = CheckpointSchedule(SavePolicy(), self._strategy)
            if self._is_chief:
                _log.warning("%s", not_within_epochs(data))
        if self._resumed is None:
            super().on_train_begin(logs)
        else:
            self._go_on(iterator, self._resumed)
        self._log_sizes = csv_logger_files.sizes(self._given)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self._data is None:
            return
        self.model._initial_epoch = None
        if self._first_epoch is None:
            self._first_epoch = epoch
        resumed = self._resumed
        if resumed is not None and resumed.step and not self._steps:
            # Whether any step is left, only the data's end will tell.
            fit_state(self.model).logs_before = resumed.logs
        self._begun()
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._data is not None:
            # Of the last steps in one execution there may be fewer than Keras says.
            super().on_train_batch_end(min(batch, self._steps - 1) if self._steps else batch, logs)

    def on_test_begin(self, logs: Logs = None) -> None:
        if self._data is not None:
            super().on_test_begin(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._data is not None:
            self._before += self._position.step
            self._log_sizes = csv_logger_files.sizes(self._given)
            super().on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Logs = None) -> None:
        if self._data is None:
            return
        self.model._initial_epoch = None
        if self._saved_at != self._position:
            self._save(must=True)
        super().on_train_end(logs)
        self._ended(self._mark, self._total)

    def save_now(self) -> str | None:
        if self._data is None:
            return None
        if self._data.why_not and self._position.step:
            # A training goes on at the end of the last epoch of which there is a checkpoint.
            saved = self._saved_at
            if saved is None or not self._finish():
                return None
            return f"the end of epoch {saved.epoch} in {self._checkpoints.folder}"
        return super().save_now()

    @property
    def is_under_way(self) -> bool:
        """Whether the `fit` runs now."""
        return self._data is not None and fit_state(self.model).is_under_way

    @property
    def _total(self) -> int:
        return self._before + self._position.step

    def _where(self) -> str:
        return super()._where() if self._steps else f"step {self._total} (epoch {self._position.epoch + 1})"

    def _go_on(self, iterator: Any, resumed: CheckpointSummary) -> None:
        """Gives back all that was kept, and makes Keras begin with the epoch and step that come next."""
        assert self._data is not None
        kept = resumed.record["fit"]
        check_same_data(kept["data"], self._data)
        check_place(resumed.step, self._data)
        check_executions(resumed.step, self._steps, self.model.steps_per_execution)
        training_state.build(self.model, iterator._distributed_dataset)
        check_optimizers(kept["optimizers"], training_state.optimizer_sizes(self.model))
        super().on_train_begin()
        left = callback_state.write(self._with_states(), kept["callbacks"], self._values)
        if left and self._is_chief:
            _log.warning("The checkpoint has states of callbacks that fit no longer has: %s.", ", ".join(left))
        if self._file is not None and "history" in resumed.record:
            self._file.go_on(resumed.record)
        self._first_epoch, self._mark = kept["first_epoch"], kept["mark"]
        self._before = resumed.total - resumed.step
        if not self._data.why_not:
            data_position.fast_forward(iterator, resumed.epoch - kept["first_epoch"], resumed.step)
        # Where Keras's own BackupAndRestore leaves the epoch to begin with.
        epochs = self.params["epochs"]
        self.model._initial_epoch = next_epoch = epochs if kept["stopped"] else resumed.epoch
        if self._is_chief and next_epoch < epochs:
            csv_logger_files.cut(self._given, kept.get("csv_logs", ()), next_epoch)

    def _own_values(self) -> dict[str, np.ndarray]:
        try:
            self._states, arrays = callback_state.read(self._with_states())
        except TypeError as error:
            raise UsageError(
                f"A callback names in {callback_state.NAMES} what no checkpoint can hold: {error}. Expected numbers, "
                "texts, arrays, and lists and dicts of these. Leave it out, or turn it into one of them."
            ) from error
        return arrays

    def _with_states(self) -> list[Any]:
        history = getattr(self.model, "history", None)
        is_given = any(callback is history for callback in self._given)
        return [*self._given, *([history] if isinstance(history, keras.callbacks.History) and not is_given else [])]

    def _kept(self) -> dict[str, Any]:
        """What a checkpoint has besides weights, arrays and place; on the chief, once for each."""
        assert self._data is not None
        self._mark = secrets.token_hex(8)
        fit = {
            "number": self._fit.number,
            "mark": self._mark,
            "after": self._fit.after,
            "first_epoch": self._first_epoch,
            "stopped": bool(self.model.stop_training) and not self._position.step,
            "data": {"kind": self._data.kind, **self._data.facts},
            "optimizers": training_state.optimizer_sizes(self.model),
            "callbacks": self._states,
            "csv_logs": self._log_sizes,
        }
        return {"fit": fit} | ({} if self._file is None else self._file.kept)
