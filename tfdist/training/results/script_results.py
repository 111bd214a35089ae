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
import tensorflow as tf

from tfdist.errors import RunDirError
from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.runtime.workers import worker_rank
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.results.model_keeper import ModelKeeper
from tfdist.training.run_record_callback import RunRecordCallback

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
