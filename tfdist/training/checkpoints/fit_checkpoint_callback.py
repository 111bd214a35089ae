"""The callback that makes the checkpoints of one `fit` of a script, and resumes the `fit` from them.

Checks that a `fit` can resume from a checkpoint, and within an epoch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.checkpoint import CheckpointManager, CheckpointSummary, SavePolicy
from tfdist.errors import RunDirError, UnsupportedError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.files import training_state
from tfdist.keras_repairs.inputs import data_position
from tfdist.keras_repairs.inputs.data_position import FitData
from tfdist.runtime import random_state
from tfdist.training.checkpoints import resume_files
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback, CheckpointSchedule, ContextFactory, Logs
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions
from tfdist.training.run_record_callback import RunRecordCallback

_log = logging.getLogger("tfdist")


@dataclass(frozen=True)
class RegisteredFit:
    """One `fit` of a script, as its checkpoints know it.

    Attributes:
        number: Its number among those that are saved in the same directory, from 0.
        options: How it is saved.
        checkpoints: Its own.
        after: The mark of the last checkpoint of the one before it; empty for the first.
        resumed: The checkpoint that it resumes from; None where it begins.
    """

    number: int
    options: CheckpointOptions
    checkpoints: CheckpointManager
    after: str = ""
    resumed: CheckpointSummary | None = None

    @property
    def policy(self) -> SavePolicy:
        """The moments at which its checkpoints are made, besides the ends of epochs."""
        minutes = self.options.every_minutes
        return SavePolicy(self.options.every_steps, None if minutes is None else minutes * 60.0)


class FitCheckpointCallback(CheckpointCallback):
    """Stands last among the callbacks of a `fit`, on every worker.

    Attributes:
        fit: The `fit` that it saves.

    Args:
        fit: The `fit` that it saves.
        given: The other callbacks of this worker.
        record_callback: Keeps the record of the `fit`, if any.
        base_summary: The summary of each checkpoint, without what only a running `fit` knows.
        strategy: The process's strategy.
        on_begin: Called when the `fit` has something to train.
        on_end: Called at its end with the mark of its last checkpoint and with its steps.
        saving: Entered while the training waits for a checkpoint.
    """

    ignores_batches = True

    def __init__(
        self,
        fit: RegisteredFit,
        given: Sequence[Any],
        record_callback: RunRecordCallback | None,
        base_summary: CheckpointSummary,
        strategy: tf.distribute.Strategy,
        on_begin: Callable[[], None],
        on_end: Callable[[str, int], None],
        saving: ContextFactory = contextlib.nullcontext,
    ) -> None:
        record = dict if record_callback is None else lambda: record_callback.state
        super().__init__(fit.checkpoints, fit.policy, base_summary, 0, record, fit.resumed, strategy, saving, given)
        self.fit = fit
        self._record_callback = record_callback
        self._on_begin = on_begin
        self._on_end = on_end
        self._data: FitData | None = None
        self._of_fit: object = None
        self._steps_before = 0
        self._first_epoch: int | None = None
        self._log_sizes: list[int | None] = []
        self._mark = ""
        self._evaluations = self._evaluations_before = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        iterator = fit_state(self.model).take_iterator()
        if iterator is None:
            # A loop of the script's own, which no checkpoint can resume.
            return
        self._data = data = data_position.describe(iterator)
        self._of_fit = fit_state(self.model).fits[-1]
        self._steps = data.steps or 0
        self._base_summary = dataclasses.replace(self._base_summary, batch_size=data.batch_size, samples=data.samples)
        if data.why_not:
            self._schedule = CheckpointSchedule(SavePolicy(), self._strategy)
            if self._is_chief:
                _log.warning("%s", epoch_ends_only(data))
        if self._resumed is None:
            super().on_train_begin(logs)
        else:
            self._resume(iterator, self._resumed)
        self._log_sizes = resume_files.sizes(self._given)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if self._data is None:
            return
        self.model._initial_epoch = None
        if self._first_epoch is None:
            self._first_epoch = epoch
        resumed = self._resumed
        if resumed is not None and resumed.step and not self._steps:
            # Only the end of the data tells whether any step is left.
            fit_state(self.model).logs_before = resumed.logs
        self._on_begin()
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self._data is not None:
            # The last execution may have fewer steps than Keras says.
            super().on_train_batch_end(min(batch, self._steps - 1) if self._steps else batch, logs)

    def on_test_begin(self, logs: Logs = None) -> None:
        if self._data is None:
            return
        if self._evaluations_before:
            with random_state.kept():
                data_position.repeat_validation_ends(self.model, self._evaluations_before)
            self._evaluations_before = 0
        super().on_test_begin(logs)

    def on_test_end(self, logs: Logs = None) -> None:
        self._evaluations += 1
        super().on_test_end(logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._data is not None:
            self._steps_before += self._position.step
            self._log_sizes = resume_files.sizes(self._given)
            super().on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Logs = None) -> None:
        if self._data is None:
            return
        self.model._initial_epoch = None
        if self._saved_at != self._position:
            self._save(must=True)
        super().on_train_end(logs)
        self._on_end(self._mark, self._total)

    def save_now(self) -> str | None:
        if self._data is None:
            return None
        if self._data.why_not and self._position.step:
            # Such a training resumes at the end of the last epoch that has a checkpoint.
            saved = self._saved_at
            if saved is None or not self._finish():
                return None
            return f"the end of epoch {saved.epoch} in {self._checkpoints.folder}"
        return super().save_now()

    @property
    def why_not_saved(self) -> str:
        if self._data is not None and self._data.why_not and self._position.step:
            return "no epoch was done, and this training resumes at the end of one"
        return super().why_not_saved

    @property
    def is_under_way(self) -> bool:
        """True if the `fit` runs now."""
        return self._of_fit is not None and self._of_fit in fit_state(self.model).fits

    @property
    def _total(self) -> int:
        return self._steps_before + self._position.step

    def _where(self) -> str:
        return super()._where() if self._steps else f"step {self._total} (epoch {self._position.epoch + 1})"

    def _resume(self, iterator: Any, resumed: CheckpointSummary) -> None:
        """Restores all that was saved, and makes Keras begin with the epoch and step that come next."""
        assert self._data is not None
        saved = resumed.record["fit"]
        check_same_data(saved["data"], self._data)
        check_place(resumed.step, self._data)
        check_executions(resumed.step, self._steps, self.model.steps_per_execution)
        training_state.build(self.model, iterator._distributed_dataset)
        check_optimizers(saved["optimizers"], training_state.optimizer_sizes(self.model))
        # With the random states of the script's beginning, as then; those of the checkpoint come after it.
        data_position.repeat_epoch_ends(iterator, resumed.epoch - saved["first_epoch"])
        self._evaluations = self._evaluations_before = saved.get("evaluations", 0)
        super().on_train_begin()
        self._restore_callbacks(saved["callbacks"])
        if self._record_callback is not None and "history" in resumed.record:
            self._record_callback.restore(resumed.record)
        self._first_epoch, self._mark = saved["first_epoch"], saved["mark"]
        self._steps_before = resumed.total - resumed.step
        if not self._data.why_not:
            data_position.fast_forward(iterator, resumed.epoch - saved["first_epoch"], resumed.step)
        # Where Keras's own BackupAndRestore leaves the epoch to begin with.
        epochs = self.params["epochs"]
        self.model._initial_epoch = next_epoch = epochs if saved["stopped"] else resumed.epoch
        if self._is_chief and next_epoch >= epochs:
            print(f"tfdist: fit {self.fit.number + 1} was done before; nothing to train", file=sys.stderr, flush=True)
        elif self._is_chief:
            resume_files.cut(self._given, saved.get("csv_logs", ()), next_epoch)

    def _stateful_callbacks(self) -> list[Any]:
        history = getattr(self.model, "history", None)
        is_given = any(callback is history for callback in self._given)
        return [*self._given, *([history] if isinstance(history, keras.callbacks.History) and not is_given else [])]

    def _whole_record(self) -> Mapping[str, Any]:
        assert self._data is not None
        self._mark = secrets.token_hex(8)
        fit = {
            "number": self.fit.number,
            "mark": self._mark,
            "after": self.fit.after,
            "first_epoch": self._first_epoch,
            "stopped": self._is_stopped,
            "data": {"kind": self._data.kind, **self._data.facts},
            "optimizers": training_state.optimizer_sizes(self.model),
            "callbacks": self._states,
            "csv_logs": self._log_sizes,
            "evaluations": self._evaluations,
        }
        return {"fit": fit, **super()._whole_record()}


def check_same_data(there: Mapping[str, Any], data: FitData) -> None:
    """Checks that global batches are those of the `fit` to resume.

    Raises:
        RunDirError: They are not: some samples of the epoch would come twice, and others not at all.
    """
    here = {"kind": data.kind, **data.facts}
    for name in here.keys() | there.keys():
        if here.get(name) != there.get(name):
            remedy = " Start it with the --run-dir of that run, whose seed it takes." if name == "seed" else ""
            raise RunDirError(
                f"The checkpoint is of a fit whose data had another {name}: {there.get(name)}. Expected the same, "
                f"which decides the order of the samples. Received: {here.get(name)}.{remedy} Resume with the same "
                "data, or choose another directory."
            )


def check_place(done: int, data: FitData) -> None:
    """Checks that a `fit` on `data` can begin after `done` steps of an epoch.

    Raises:
        RunDirError: It cannot: some samples of the epoch would come twice.
    """
    if done and data.why_not:
        raise RunDirError(
            f"The checkpoint was made after {done} steps of an epoch. Expected data that can resume within an epoch, "
            f"as the fit had. Received: {data.kind}, and {data.why_not}. Resume with the same data, or choose another "
            "directory."
        )


def check_executions(done: int, steps: int, steps_per_execution: int) -> None:
    """Checks that an execution of several steps can begin after `done` of the `steps` of an epoch.

    Raises:
        RunDirError: It cannot.
    """
    if done % steps_per_execution and done != steps:
        raise RunDirError(
            f"The checkpoint was made after {done} steps of an epoch. Expected steps_per_execution to divide them. "
            f"Received: {steps_per_execution}. Resume with the number that the fit had, which can be changed between "
            "two epochs."
        )


def check_optimizers(there: Sequence[int], here: Sequence[int]) -> None:
    """Checks that every optimizer has as many variables as the one that was saved.

    Raises:
        UnsupportedError: One has not: it is not built yet.
    """
    if list(there) != list(here):
        raise UnsupportedError(
            "This fit cannot resume from its checkpoint: an optimizer of the model has no variables yet, and Keras "
            f"would not load them. Expected {there} variables, one number for each optimizer. Received: {here}. Call "
            "optimizer.build(variables) on each before fit."
        )


def epoch_ends_only(data: FitData) -> str:
    """The warning for a `fit` whose checkpoints can be made at the ends of epochs alone."""
    return (
        "Checkpoints of this fit are made at the ends of its epochs alone, and an epoch that is killed begins again: "
        f"its data is {data.kind}, and {data.why_not}. Data that can resume within an epoch: arrays, tfdist.data, and "
        "a tf.data.Dataset without Python code and without randomness other than shuffle."
    )
