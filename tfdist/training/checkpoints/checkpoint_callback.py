"""The callback that makes a run's checkpoints, and resumes a training from one."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.checkpoint import CheckpointManager, CheckpointSummary, SavePolicy
from tfdist.checkpoint.checkpoint_manager import variables_of
from tfdist.errors import RunDirError, UsageError
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.files import training_state
from tfdist.keras_repairs.files.shard_copy import ShardCopy, is_shared
from tfdist.keras_repairs.files.weights_copy import WeightsCopy
from tfdist.keras_repairs.sharding_policies.loaded_state import full_shape, restore_accumulated
from tfdist.order.epoch_span import START, Position
from tfdist.runtime import random_state, replica_values
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.workers import worker_rank
from tfdist.training.checkpoints import callback_state
from tfdist.training.checkpoints.callback_state import WatchedAttributes


class CheckpointSchedule:
    """Says when the next checkpoint is due, the same on all workers. Call its methods on all, with the same steps.

    Args:
        policy: When one is due.
        strategy: The process's strategy.
    """

    def __init__(self, policy: SavePolicy, strategy: tf.distribute.Strategy) -> None:
        self._policy = policy
        self._strategy = strategy
        self.begin(0)

    def begin(self, step: int) -> None:
        """The training begins or resumes with so many steps of the run done."""
        self._saved_time = self._look_time = time.monotonic()
        self._looked_at = step
        self._look_at = step + self._policy.steps_until_look(0.0, None)

    def saved(self) -> None:
        """A checkpoint was made, or tried: the time until the next one begins."""
        self._saved_time = time.monotonic()

    def steps_until_due(self, step: int) -> float:
        """After how many steps from `step` it must be asked next, at the latest; infinity where it need not be."""
        return min(self._policy.steps_until_due(step), self._look_at - step)

    def is_due(self, step: int) -> bool:
        """Returns whether one is due when `step` steps of the run are done."""
        if self._policy.is_due_at(step):
            return True
        return step >= self._look_at and self._is_due_by_the_clock(step)

    def _is_due_by_the_clock(self, step: int) -> bool:
        """Asks the chief, whose clock counts for all workers, and agrees on when to ask again."""
        now = time.monotonic()
        seconds = now - self._saved_time
        is_due = self._policy.is_due_after(seconds)
        per_step = (now - self._look_time) / max(1, step - self._looked_at)
        steps = self._policy.steps_until_look(0.0 if is_due else seconds, per_step)
        said = broadcast(np.array([is_due, steps], np.float64), strategy=self._strategy)
        self._look_time, self._looked_at = now, step
        self._look_at = step + said[1]
        return bool(said[0])


Logs = Mapping[str, Any] | None
ContextFactory = Callable[[], contextlib.AbstractContextManager[None]]

_log = logging.getLogger("tfdist")

RANDOM = "random"
"""The name of the random states that no model holds, among a checkpoint's values."""


class CheckpointCallback(keras.callbacks.Callback):
    """Saves when a checkpoint is due, after the same batch on all workers; give it to `fit` on each of them.

    It comes after the callback that keeps the run's record, so that an epoch's checkpoint has the epoch's record.

    Args:
        checkpoints: Those of the run.
        policy: When one is due, besides at the end of every epoch.
        base_summary: The summary of each, without position, time and what only a running training knows.
        steps: Steps of an epoch.
        record: Returns the run's record of its epochs so far, in JSON's types.
        resumed: The checkpoint that the training resumes from; None where it begins.
        strategy: The process's strategy.
        saving: Entered while the training waits for a checkpoint.
        given: The other callbacks, whose states checkpoints hold.
    """

    ignores_batches = True
    """Except those after `steps_until_due` steps."""

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
        super().__init__()
        self._given = given
        self._states: dict[str, Any] = {}
        self._watched = WatchedAttributes(())
        self._checkpoints = checkpoints
        self._schedule = CheckpointSchedule(policy, strategy)
        self._base_summary = base_summary
        self._steps = steps
        self._record = record
        self._resumed = resumed
        self._strategy = strategy
        self._saving = saving
        self._weights: WeightsCopy | None = None
        self._shard: ShardCopy | None = None
        self._is_chief = worker_rank(strategy) == 0
        self._position = base_summary.position if resumed is None else resumed.position
        self._saved_at = self._tried_at = None if resumed is None else resumed.position
        self._logs: dict[str, float] = {}
        self._results: Mapping[str, Callable[[], Any]] = {}
        self._values: dict[str, np.ndarray] = {}
        self._before_test: dict[str, np.ndarray] | None = None

    def steps_until_due(self) -> float:
        """After how many steps this callback wants to be called; the same on all workers."""
        return self._schedule.steps_until_due(self._total)

    def save_now(self) -> str | None:
        """Saves between two batches, on all workers together, for a training that is stopped before its end.

        It returns when the checkpoint is on the disk. Where that failed before at this step, it is tried once more.

        Returns:
            What was saved where, for people; None when it could not be saved, or no step has been done.
        """
        if self._position == START:
            return None
        is_saved = self._saved_at == self._position and self._finish()
        if not is_saved and not (self._save(must=True) and self._finish()):
            return None
        return f"{self._where()} in {self._checkpoints.folder}"

    @property
    def why_not_saved(self) -> str:
        """The reason why `save_now` has saved nothing, in words."""
        return "no step was done" if self._position == START else "its checkpoint could not be written"

    def on_train_begin(self, logs: Logs = None) -> None:
        self._watched = WatchedAttributes(self._given)
        if self._resumed is not None:
            shape_of = functools.partial(full_shape, self.model.optimizer)
            self._checkpoints.restore_weights(self.model, self._resumed, shape_of)
            self._values = self._checkpoints.replica_values()
            with self._strategy.scope():
                training_state.prepare(self.model, self._values)
            restore_accumulated(self.model, self._values)
            persistent = training_state.persistent_state(self.model)
            self._restore_values({**persistent, **self._transient_state(metrics=False)})
            if RANDOM in self._values:
                random_state.write(self._values[RANDOM], self._strategy)
        self._schedule.begin(self._total)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            self._position = Position(epoch)
            return
        if resumed.step:
            # Only now: Keras resets the metrics at the start of an epoch.
            self._restore_values(self._transient_state(metrics=True))
        if resumed.step == self._steps:
            fit_state(self.model).logs_before = resumed.logs
        self._logs, self._results = dict(resumed.logs), {}
        self._values = {}

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        step = batch + 1 + fit_state(self.model).unreported_steps()
        self._position = dataclasses.replace(self._position, step=step)
        self._logs, self._results = _numbers(logs), fit_state(self.model).logged_results or {}
        if self._tried_at != self._position and self._schedule.is_due(self._total):
            self._save()

    def on_test_begin(self, logs: Logs = None) -> None:
        # The evaluation at the end of an epoch resets the metrics; a stop during it must know the epoch's.
        self._before_test = self._read_transient(metrics=True)
        self._read_results()

    def on_test_end(self, logs: Logs = None) -> None:
        self._before_test = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._position = Position(epoch + 1)
        self._logs, self._results = {}, {}
        # Only this checkpoint can have the epoch's metrics.
        self._save(must=True, metrics=_numbers(logs))

    def on_train_end(self, logs: Logs = None) -> None:
        if self._is_chief:
            with self._saving():
                self._checkpoints.finish()
        # The model outlives its training and holds its callbacks, and this copy is as large as a checkpoint.
        self._weights = self._shard = None

    def _where(self) -> str:
        position = self._position
        return f"step {self._total} (epoch {position.epoch + 1}, {position.step} of {self._steps} batches)"

    @property
    def _total(self) -> int:
        return self._position.total(self._steps)

    def _save(self, *, must: bool = False, metrics: Mapping[str, float] | None = None) -> bool:
        """Copies what a checkpoint needs, which is then written while the training continues.

        Args:
            must: Whether one is made even if the one before is still being written and the run skips such ones.
            metrics: Of the epoch that ends here.

        Returns:
            Whether it was made, the same on all workers.
        """
        with self._saving():
            return self._save_together(must, metrics or {})

    def _save_together(self, must: bool, metrics: Mapping[str, float]) -> bool:
        self._tried_at = self._position
        made = self._agreed(lambda: self._checkpoints.ready(self._total, must=must))
        if made:
            transient = self._before_test
            if transient is None:
                self._read_results()
                transient = self._read_transient(metrics=self._position.step > 0)
            persistent = replica_values.read(training_state.persistent_state(self.model), self._strategy)
            values = persistent | transient | self._own_values()
            made = self._begin_to_write(values, metrics)
        if made:
            self._saved_at = self._position
        self._schedule.saved()
        return made

    def _finish(self) -> bool:
        """Waits until the last checkpoint is on the disk; returns whether it is, the same on all workers."""
        with self._saving():
            return self._agreed(self._checkpoints.finish)

    def _agreed(self, ask: Callable[[], bool]) -> bool:
        """The chief's answer, on all workers."""
        return bool(broadcast(self._is_chief and ask(), strategy=self._strategy))

    def _begin_to_write(self, values: Mapping[str, np.ndarray], metrics: Mapping[str, float]) -> bool:
        """Copies weights and optimizer, on all workers; returns whether they are being written, the same on all."""
        summary = self._summary(metrics) if self._is_chief else None
        if is_shared(self.model, self._strategy):
            if self._shard is None:
                self._shard = ShardCopy(self.model, self._strategy)
            return self._checkpoints.save_shards(self._shard, values, summary, self._total)
        if summary is not None:
            if self._weights is None:
                self._weights = WeightsCopy(self.model)
            self._checkpoints.save(self._weights, values, summary)
        return True

    def _summary(self, metrics: Mapping[str, float]) -> CheckpointSummary:
        shape_of = functools.partial(full_shape, self.model.optimizer)
        return dataclasses.replace(
            self._base_summary,
            epoch=self._position.epoch,
            step=self._position.step,
            total=self._total,
            time=time.time(),
            variables=variables_of(self.model, shape_of),
            logs=self._logs,
            metrics=metrics,
            record=self._whole_record(),
        )

    def _whole_record(self) -> Mapping[str, Any]:
        """What a checkpoint holds besides weights, arrays and position; on the chief, once for each."""
        return self._record()

    @property
    def _is_stopped(self) -> bool:
        """True if a callback has ended the training with the epoch of this checkpoint."""
        return bool(self.model.stop_training) and not self._position.step

    def _own_values(self) -> dict[str, np.ndarray]:
        """Further arrays of a checkpoint, by names of their own; those of the chief are written."""
        try:
            self._states, arrays = callback_state.read(self._stateful_callbacks(), self._watched.changed)
        except TypeError as error:
            raise UsageError(
                f"A callback names in {callback_state.NAMES} what no checkpoint can hold: {error}. Expected numbers, "
                "texts, arrays, and lists and dicts of these. Leave it out, or turn it into one of them."
            ) from error
        left_out = self._watched.left_out()
        if left_out and self._is_chief:
            _log.warning(
                "Checkpoints leave out what fit has changed in callbacks and they cannot hold: %s. A training that "
                "resumes begins with it anew. Expected variables, numbers, texts, arrays, and lists, tuples and dicts "
                "of these. Turn it into one of them, or name in %s what stands for it.",
                ", ".join(left_out),
                callback_state.NAMES,
            )
        return arrays

    def _stateful_callbacks(self) -> list[Any]:
        return list(self._given)

    def _restore_callbacks(self, states: Mapping[str, Any]) -> None:
        left = callback_state.write(self._stateful_callbacks(), states, self._values)
        if left and self._is_chief:
            _log.warning("The checkpoint has states of callbacks that fit no longer has: %s.", ", ".join(left))

    def _read_transient(self, *, metrics: bool) -> dict[str, np.ndarray]:
        """Reads what an evaluation changes: seeds, metrics, the random states that no model holds."""
        values = replica_values.read(self._transient_state(metrics=metrics), self._strategy)
        return values | {RANDOM: random_state.read(self._strategy)}

    def _read_results(self) -> None:
        """Reads metrics that the last step has logged over all replicas; all workers call this together.

        A process that has only the end of the epoch to do knows no step that would say what its logs are of.
        """
        if self._position.step == self._steps or not self._steps:
            read = {name: result() for name, result in self._results.items() if name in self._logs}
            self._logs |= _numbers(read)

    def _transient_state(self, *, metrics: bool) -> dict[str, replica_values.ReplicaCopies]:
        return training_state.transient_state(self.model, metrics=metrics)

    def _restore_values(self, parts: Mapping[str, replica_values.ReplicaCopies]) -> None:
        try:
            replica_values.write(self._values, parts, self._strategy)
        except ValueError as error:
            raise RunDirError(
                f"The checkpoint is of another model than the config's: {error}. Expected the config that was "
                "trained. Train with that one, or choose another --run-dir."
            ) from error


def _numbers(logs: Logs) -> dict[str, float]:
    return {name: float(value) for name, value in (logs or {}).items() if np.ndim(value) == 0}
