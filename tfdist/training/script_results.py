"""Results of a script: what each of its `fit`s leaves in the run directory, unless the run is not to keep any.

The record of a script's `fit`s: metrics and history of all of them, one after another.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import RunDirError
from tfdist.keras_repairs.files.model_saving import unnoticed
from tfdist.keras_repairs.sharding_policies.optimizer_policy import shards_of
from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.workers import worker_rank
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.run_record_callback import RunRecordCallback
from tfdist.training.weights_file import one_line

_SHARE_OF_SAVING = 0.05
"""Of the time, what it may take to save the models of one `fit` after another."""

_MOST_CHARACTERS = 300



class ModelKeeper:
    """Saves the model that the last `fit` has trained, on the chief. A failure is a warning.

    All workers call its methods at the same places. Where `fit`s are so short that saving would take a good part of the
    time, a model is saved later: after another `fit`, or at the end of the script.

    Args:
        run: The run directory.
        strategy: The process's.
        saving: Entered while the training waits for it.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        run: RunDir,
        strategy: tf.distribute.Strategy,
        saving: ContextFactory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._disk = BoundedDisk(run.path)
        self._strategy = strategy
        self._saving = saving
        self._clock = clock
        self._begun = clock()
        self._spent = 0.0
        self._waiting: keras.Model | None = None
        self._is_chief = worker_rank(strategy) == 0

    def keep(self, model: keras.Model) -> None:
        """Saves the model of a `fit` that has ended, now or later."""
        is_due = self._spent <= _SHARE_OF_SAVING * (self._clock() - self._begun)
        if shards_of(model):
            # Each of them has a part of it, so that all must come.
            is_due = bool(broadcast(np.int64(is_due), strategy=self._strategy))
        self._waiting = None if is_due else model
        if is_due:
            self._save(model)

    def finish(self, *, together: bool) -> None:
        """Saves what waits, at the end of the script.

        Args:
            together: Whether all workers come here, as they do unless the script has failed.
        """
        model, self._waiting = self._waiting, None
        if model is not None and (together or not shards_of(model)):
            self._save(model)

    def _save(self, model: keras.Model) -> None:
        begun, parts = self._clock(), bool(shards_of(model))
        if not self._is_chief and not parts:
            return
        with self._saving(), unnoticed():
            # Keras would wait for a disk that does not answer.
            error = self._failure(lambda: self._disk.call(self._run.path.stat)) if self._is_chief else None
            if self._any_fails(error, parts):
                self._say_unsaved(model, error)
            else:
                self._save_on_disk(model, parts)
        self._spent += self._clock() - begun

    def _save_on_disk(self, model: keras.Model, parts: bool) -> None:
        error = self._failure(lambda: keras.saving.save_model(model, self._run.model_file))
        if self._any_fails(error, parts):
            self._save_weights(model, error)
        elif self._is_chief:
            self._run.weights_file.unlink(missing_ok=True)

    def _any_fails(self, error: Exception | None, parts: bool) -> bool:
        """Returns whether the chief has failed; where workers hold parts, all of them know."""
        fails = error is not None
        return bool(broadcast(np.int64(fails), strategy=self._strategy)) if parts else fails

    def _say_unsaved(self, model: keras.Model, error: Exception | None) -> None:
        if error is not None:
            _log.warning("The model %r is not saved: %s The run goes on without it.", model.name, _said(error))

    def _save_weights(self, model: keras.Model, error: Exception | None) -> None:
        """Keeps what can be kept of a model that Keras cannot save whole."""
        also = self._failure(lambda: model.save_weights(self._run.weights_file))
        if not self._is_chief or error is None:
            return
        if also is not None:
            self._say_unsaved(model, also)
            return
        # It would be that of an earlier fit.
        self._run.model_file.unlink(missing_ok=True)
        _log.warning(
            "Keras cannot save the model %r as a whole, and its weights are in %s instead: %s",
            model.name,
            self._run.weights_file,
            _said(error),
        )

    def _failure(self, save: Callable[[], Any]) -> Exception | None:
        """Saves, and returns what it raises: a run that has trained does not fail for it."""
        try:
            save()
        except Exception as error:  # Of whatever code of the user's own describes the model.
            return error
        return None


def _said(error: Exception) -> str:
    said = one_line(error)
    said = said if len(said) <= _MOST_CHARACTERS else f"{said[:_MOST_CHARACTERS]}..."
    return f"{type(error).__name__}: {said}"


_log = logging.getLogger("tfdist")
_SHARE = 0.02
"""Of the time, what it may take to write the record."""


class ScriptResults:
    """The results of this process's `fit`s. All workers call its methods at the same places.

    Args:
        run: The run directory, which exists.
        strategy: The process's.
        saving: Entered while the training waits for a model to be saved.
        calls: How many `fit`s, evaluations and predictions have begun, without those inside of another one.
    """

    def __init__(
        self, run: RunDir, strategy: tf.distribute.Strategy, saving: ContextFactory, calls: Callable[[], int]
    ) -> None:
        self._keeper = ModelKeeper(run, strategy, saving)
        self._record = ScriptRecordCallback(run) if worker_rank(strategy) == 0 else None
        self._calls = calls
        self._fits = self._call = 0

    def record_for(self, given: Sequence[Any]) -> ScriptRecordCallback | None:
        """The record of a `fit` that begins; None on a worker that keeps none, and where the script keeps one itself.

        Args:
            given: The callbacks of the `fit`.
        """
        if self._record is None or self._is_inside:
            return None
        own = (one for one in given if isinstance(one, RunRecordCallback))
        return None if any(one.run == self._record.run for one in own) else self._record

    def callbacks_for(self, given: Sequence[Any]) -> list[keras.callbacks.Callback]:
        """The callback that keeps the model of a `fit`; one inside of another's callback is a part of that."""
        if self._is_inside:
            return []
        self._call = self._calls()
        self._fits += 1
        if self._record is not None:
            self._record.fit = self._fits
        return [_FitResults(self._keeper)]

    def finish(self, *, together: bool) -> None:
        """Writes what is not written yet, at the end of the script.

        Args:
            together: Whether all workers come here, as they do unless the script has failed.
        """
        try:
            if self._record is not None:
                self._record.finish()
        except RunDirError as error:
            _log.warning("The record of the last epochs is not written. %s", error)
        self._keeper.finish(together=together)

    @property
    def _is_inside(self) -> bool:
        """True if the `fit` that begins is inside of another one, which may have raised since it began."""
        return self._calls() == self._call


class _FitResults(keras.callbacks.Callback):
    """Stands last among the callbacks of a `fit`, on every worker.

    Args:
        keeper: Saves its model.
    """

    ignores_batches = True

    def __init__(self, keeper: ModelKeeper) -> None:
        super().__init__()
        self._keeper = keeper

    def on_train_end(self, logs: Any = None) -> None:
        self._keeper.keep(self.model)


class ScriptRecordCallback(RunRecordCallback):
    """Keeps `metrics.jsonl`, `history.json` and `events/` of a script, in the same form as those of a config.

    Epochs are counted on from one `fit` to the next, and each line names its `fit`, from 1. Many short epochs are
    written together. A disk that does not answer ends no training: it is waited for once, and not for long.

    Args:
        run: The run directory, which exists.
    """

    def __init__(self, run: RunDir) -> None:
        super().__init__(run)
        self.fit = 0
        self._disk = BoundedDisk(run.path)
        self._next_write = 0.0
        self._is_behind = False

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._is_behind = True

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        super().on_epoch_end(self.epochs, logs)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Does nothing: the next `fit` goes on in the same files."""

    def keep(self, epoch: int, values: Mapping[str, float]) -> None:
        self._disk.call(lambda: super(ScriptRecordCallback, self).keep(epoch, values))

    def line(self, epoch: int, values: Mapping[str, float]) -> str:
        return json.dumps({"epoch": epoch, "fit": self.fit, "time": time.time(), **values}) + "\n"

    def write(self) -> None:
        begun = time.monotonic()
        self._is_behind = begun < self._next_write
        if not self._is_behind:
            super().write()
            ended = time.monotonic()
            self._next_write = ended + (ended - begun) / _SHARE

    def finish(self) -> None:
        """Writes what is not written yet.

        Raises:
            RunDirError: It cannot be written.
        """
        if self._is_behind:
            self._next_write = 0.0
            self._disk.call(self.write)
        self._disk.call(self._close_events)
