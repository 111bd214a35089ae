"""Results of a script: what each of its `fit`s leaves in the run directory, unless the run is not to keep any."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import RunDirError
from tfdist.rundir import RunDir
from tfdist.runtime.workers import worker_rank
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.results.model_keeper import ModelKeeper
from tfdist.training.results.script_record import ScriptRecordCallback
from tfdist.training.run_record_callback import RunRecordCallback

_log = logging.getLogger("tfdist")


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
        """Whether the `fit` that begins is inside of another one, which may have raised since it began."""
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
