"""The `fit`s of a script, in the order of their calls: which of them are kept, and with which the script goes on.

A script is run again from its beginning. Those of its `fit`s that had come to their end train nothing: they get the
weights, the optimizer, the history and the random states that they ended with. The first that had not goes on at its
next step, and those after it begin anew. What lies between is done again by the script itself.

Checkpoints are chained: each has the mark of the one that the `fit` before had ended with. Where a `fit` goes on and
ends anew, what was kept of those after it is of a past that is no more.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfdist.checkpoint import CheckpointManager, CheckpointSummary, RetentionPolicy, checkpoint_files
from tfdist.errors import RunDirError, UsageError
from tfdist.runtime.collectives import gather_objects, worker_count, worker_rank
from tfdist.training.checkpoints import csv_logger_files
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, CheckpointRequest
from tfdist.training.checkpoints.fit_checkpoint_callback import FitCheckpointCallback, RegisteredFit
from tfdist.training.checkpoints.resume_log import change_of, note_resume
from tfdist.training.libraries import versions
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.stop_requests import StopRequests

_log = logging.getLogger("tfdist")


class FitRegistry:
    """The `fit`s of this process.

    Args:
        strategy: The process's.
        keeping: How those are kept whose callbacks do not say; None for not at all.
        saving: Entered while a training waits for a checkpoint.
        restoring: Entered while it reads the one that it goes on with.
        seed: The run's; None where there is none.
        job: The job's; empty without a launcher.
        attempt: Starts of the run before this one.
        stop_requests: Told what to save when the worker stops; None without a launcher.
        activity: Told where a `fit` goes on; None without a launcher.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        keeping: CheckpointOptions | None,
        saving: ContextFactory = contextlib.nullcontext,
        restoring: ContextFactory = contextlib.nullcontext,
        *,
        seed: int | None = None,
        job: str = "",
        attempt: int = 0,
        stop_requests: StopRequests | None = None,
        activity: ActivityTracker | None = None,
    ) -> None:
        self._strategy = strategy
        self._keeping = keeping
        self._saving = saving
        self._restoring = restoring
        self._seed = seed
        self._job = job
        self._attempt = attempt
        self._activity = activity
        self._is_chief = worker_rank(strategy) == 0
        self._numbers: Counter[Path] = Counter()
        self._goes_on = True
        self._mark = ""
        self._steps = 0
        self._appending: list[keras.callbacks.CSVLogger] = []
        self._current: FitCheckpointCallback | None = None
        if stop_requests is not None:
            stop_requests.at_stop(self._save_now)

    def callbacks_for(self, given: Sequence[Any]) -> list[keras.callbacks.Callback]:
        """What a `fit` with the callbacks `given` gets besides; all workers call it together.

        Raises:
            RunDirError: There is nothing to go on from and there must be, or there is and it is not asked for.
            UsageError: The workers' callbacks do not agree, or do not go together.
        """
        if self._current is not None and self._current.is_under_way:
            # A fit inside of another one's callback belongs to that one.
            return []
        for logger in self._appending:
            logger.append = False
        self._appending = []
        wish = next((callback for callback in given if isinstance(callback, CheckpointRequest)), None)
        self._check_workers(wish)
        keeping = self._keeping if wish is None else wish.keeping
        if keeping is None or self._restores_itself(given, keeping):
            return []
        fit = self._find(keeping)
        if fit.resumed is not None:
            self._tell(fit, fit.resumed)
            self._appending = csv_logger_files.append(given)
        record = None if wish is None else wish.record
        self._current = FitCheckpointCallback(
            fit, given, record, self._facts(), self._strategy, self._begin, self._end, self._saving
        )
        return [self._current]

    def say_what_was_kept(self) -> None:
        """Tells, at a script's end, where nothing could be kept of it; on the chief."""
        if self._is_chief and self._keeping is not None and not self._numbers:
            _log.warning("Nothing was kept of this script: checkpoints are made of Keras's fit, which it did not call.")

    def _find(self, keeping: CheckpointOptions) -> RegisteredFit:
        """The next `fit` of a directory, with the checkpoint that it goes on from."""
        is_first = not self._numbers
        number = self._numbers[keeping.run.path]
        self._numbers[keeping.run.path] += 1
        checkpoints = CheckpointManager(
            keeping.folder(number), RetentionPolicy(latest=keeping.keep), self._strategy, restoring=self._restoring
        )
        found = checkpoints.latest()
        resumed = None if found is None else found[0]
        if resumed is not None and self._is_earlier(resumed, keeping) and not keeping.overwrite:
            raise RunDirError(
                f"{checkpoints.folder} has checkpoints of an earlier training. Expected none, or to go on with it. "
                "Received: no --resume. Go on with tfdist train --resume auto, or callbacks(..., resume='auto'); train "
                "anew with callbacks(..., overwrite=True); or choose another directory."
            )
        if resumed is not None and not self._is_of_this_past(resumed, keeping):
            resumed = None
            self._forget(checkpoints)
        if resumed is None and is_first and keeping.resume == "must":
            raise RunDirError(
                f"There is nothing to resume in {checkpoints.folder}. Expected a checkpoint that is whole in it. "
                "Received: --resume must. Give the directory of the run that is to go on, or begin with --resume auto."
            )
        return RegisteredFit(number, keeping, checkpoints, self._mark, resumed)

    def _is_earlier(self, resumed: CheckpointSummary, keeping: CheckpointOptions) -> bool:
        """Whether a checkpoint is of a training that this one was not asked to go on with."""
        return keeping.resume == "never" or (keeping.is_restart and resumed.job != self._job)

    def _is_of_this_past(self, resumed: CheckpointSummary, keeping: CheckpointOptions) -> bool:
        if self._is_earlier(resumed, keeping):
            return False
        if "fit" not in resumed.record:
            raise RunDirError(
                f"The checkpoints in {keeping.run} are of a config's run. Expected those of a script. Give the "
                "directory of this script's run, or a new one."
            )
        return self._goes_on and resumed.record["fit"]["after"] == self._mark

    def _forget(self, checkpoints: CheckpointManager) -> None:
        if self._is_chief:
            for entry in checkpoint_files.stored(Path(checkpoints.folder)):
                checkpoint_files.remove(entry)

    def _tell(self, fit: RegisteredFit, resumed: CheckpointSummary) -> None:
        replicas = self._strategy.num_replicas_in_sync
        if self._activity is not None:
            self._activity.resume(resumed.epoch, self._steps + resumed.total)
        if not self._is_chief:
            return
        workers = worker_count(self._strategy)
        note_resume(
            fit.keeping.run, resumed, workers=workers, replicas=replicas, attempt=self._attempt, fit=fit.number
        )
        place = f"after step {resumed.total:,} (epoch {resumed.epoch + 1}, {resumed.step:,} batches done)"
        change = change_of(resumed, replicas)
        print(f"tfdist: fit {fit.number + 1} goes on {place}{change}", file=sys.stderr, flush=True)

    def _check_workers(self, wish: CheckpointRequest | None) -> None:
        """All workers must be given the callbacks, or none: each would wait for the others."""
        if worker_count(self._strategy) == 1:
            return
        said = gather_objects(wish is not None, self._strategy)
        if any(has != said[0] for has in said):
            without = ", ".join(str(index) for index, has in enumerate(said) if not has)
            raise UsageError(
                "tfdist.callbacks(...) saves and restores on all workers together, so that all must have it. Received: "
                f"a fit without it on worker {without}. Give it to fit on every worker; only the chief writes."
            )

    def _restores_itself(self, given: Sequence[Any], keeping: CheckpointOptions) -> bool:
        if not any(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in given):
            return False
        if keeping.is_asked_for:
            raise UsageError(
                "A fit has both tfdist.callbacks(...) and BackupAndRestore, and each would restore it. Expected one of "
                "them. Leave out BackupAndRestore, which begins the interrupted epoch again."
            )
        if self._is_chief:
            _log.warning("A fit with BackupAndRestore is left to it: the interrupted epoch is trained again.")
        return True

    def _facts(self) -> CheckpointSummary:
        return CheckpointSummary(
            epoch=0,
            step=0,
            total=0,
            seed=self._seed or 0,
            batch_size=0,
            samples=0,
            workers=worker_count(self._strategy),
            replicas=self._strategy.num_replicas_in_sync,
            time=0.0,
            versions=versions(),
            job=self._job,
        )

    def _begin(self) -> None:
        self._goes_on = False

    def _end(self, mark: str, steps: int) -> None:
        self._mark = mark
        self._steps += steps
        self._current = None

    def _save_now(self) -> str | None:
        return None if self._current is None else self._current.save_now()
