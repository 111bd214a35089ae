"""Registry of a script's `fit`s in the order of their calls: which are saved, and at which the script resumes.

A script is run again from its beginning. Those of its `fit`s that had finished train nothing: they get the weights,
the optimizer, the history and the random states that they ended with. The first one that had not finished resumes at
its next step, and those after it start anew. The script itself repeats what lies between.

Checkpoints are chained: each names the mark of the one that the `fit` before it ended with. Where a `fit` trains
further than its last checkpoint, the checkpoints of later `fit`s no longer follow from it.
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
from tfdist.runtime.collectives.decisions import gather_objects
from tfdist.runtime.devices import replica_kernels
from tfdist.runtime.workers import worker_count, worker_rank
from tfdist.training.checkpoints import resume_files
from tfdist.training.checkpoints.checkpoint_callback import ContextFactory
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, CheckpointRequest
from tfdist.training.checkpoints.fit_checkpoint_callback import FitCheckpointCallback, RegisteredFit
from tfdist.training.checkpoints.resume_files import change_of, note_resume, place_of, warn_of_other_kernels
from tfdist.training.libraries import versions
from tfdist.training.run_record_callback import RunRecordCallback
from tfdist.training.supervision.activity_tracker import ActivityTracker
from tfdist.training.supervision.stop_requests import StopRequests, saved_words

_log = logging.getLogger("tfdist")


class FitRegistry:
    """The `fit`s of this process.

    Args:
        strategy: The process's.
        default_options: How a `fit` is saved whose callbacks do not say so; None for not at all.
        saving: Entered while a training waits for a checkpoint.
        restoring: Entered while it reads the one that it resumes from.
        seed: The run's; None where there is none.
        job: The job's; empty without a launcher.
        attempt: Starts of the run before this one.
        is_elastic: Whether another start of the run may be under way.
        stop_requests: Told what to save when the worker stops; None without a launcher.
        activity: Told where a `fit` resumes; None without a launcher.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        default_options: CheckpointOptions | None,
        saving: ContextFactory = contextlib.nullcontext,
        restoring: ContextFactory = contextlib.nullcontext,
        *,
        seed: int | None = None,
        job: str = "",
        attempt: int = 0,
        is_elastic: bool = False,
        stop_requests: StopRequests | None = None,
        activity: ActivityTracker | None = None,
    ) -> None:
        self._strategy = strategy
        self._default_options = default_options
        self._saving = saving
        self._restoring = restoring
        self._seed = seed
        self._job = job
        self._attempt = attempt
        self._is_elastic = is_elastic
        self._activity = activity
        self._is_chief = worker_rank(strategy) == 0
        self._numbers: Counter[Path] = Counter()
        self._is_resuming = True
        self._mark = ""
        self._steps = 0
        self._appending: list[keras.callbacks.CSVLogger] = []
        self._current: FitCheckpointCallback | None = None
        if stop_requests is not None:
            stop_requests.at_stop(self._save_at_stop)

    def callbacks_for(
        self, given: Sequence[Any], kept: RunRecordCallback | None = None
    ) -> list[keras.callbacks.Callback]:
        """The callbacks that a `fit` gets besides those `given`; all workers call it together.

        Args:
            given: Those of this worker.
            kept: Keeps the record of the `fit` where the script does not; None on a worker that keeps none.

        Raises:
            RunDirError: There is nothing to resume and there must be, or there is and it was not asked for.
            UsageError: The workers' callbacks differ, or two of them exclude each other.
        """
        if self._current is not None and self._current.is_under_way:
            # A fit inside of another one's callback belongs to that one.
            return []
        for logger in self._appending:
            logger.append = False
        self._appending = []
        request = next((callback for callback in given if isinstance(callback, CheckpointRequest)), None)
        self._check_workers(request)
        options = self._default_options if request is None else request.options
        if options is None or self._has_own_backup(given, options):
            return []
        fit = self._next_fit(options)
        if fit.resumed is not None:
            self._report_resume(fit, fit.resumed)
            self._appending = resume_files.append(given)
        record = kept if request is None else request.record
        self._current = FitCheckpointCallback(
            fit, given, record, self._base_summary(), self._strategy, self.note_training, self.note_end, self._saving
        )
        return [self._current]

    def warn_if_nothing_was_saved(self) -> None:
        """Warns at the end of a script that called no `fit`; on the chief."""
        if self._is_chief and self._default_options is not None and not self._numbers:
            _log.warning(
                "Nothing of this script was saved: checkpoints are made of Keras's fit, which it did not call."
            )

    def _next_fit(self, options: CheckpointOptions) -> RegisteredFit:
        """The next `fit` of a directory, with the checkpoint that it resumes from."""
        is_first = not self._numbers
        number = self._numbers[options.run.path]
        self._numbers[options.run.path] += 1
        checkpoints = CheckpointManager(
            options.folder(number),
            RetentionPolicy(latest=options.keep),
            self._strategy,
            restoring=self._restoring,
            claimed_by=self._job,
            is_elastic=self._is_elastic,
        )
        found = checkpoints.latest()
        resumed = None if found is None else found[0]
        if resumed is not None and self._is_earlier(resumed, options) and not options.overwrite:
            raise RunDirError(
                f"{checkpoints.folder} has checkpoints of an earlier training. Expected none, or to resume it. "
                "Received: no --resume. Resume it with tfdist train --resume auto, or callbacks(..., resume='auto'); "
                "train anew with callbacks(..., overwrite=True); or choose another directory."
            )
        if resumed is not None and not self._continues_this_run(resumed, options):
            resumed = None
            self._remove_all(checkpoints)
        if resumed is None and is_first and options.resume == "must":
            raise RunDirError(
                f"There is nothing to resume in {checkpoints.folder}. Expected a complete checkpoint in it. "
                "Received: --resume must. Give the directory of the run to resume, or begin with --resume auto."
            )
        if resumed is None and is_first and options.resume == "auto" and self._attempt and self._is_chief:
            where = checkpoints.folder
            print(f"tfdist: no checkpoint yet in {where}: the training begins anew", file=sys.stderr, flush=True)
        return RegisteredFit(number, options, checkpoints, self._mark, resumed)

    def _is_earlier(self, resumed: CheckpointSummary, options: CheckpointOptions) -> bool:
        """Returns whether a checkpoint is of a training that this one was not asked to resume."""
        return options.resume == "never" or (options.is_restart and resumed.job != self._job)

    def _continues_this_run(self, resumed: CheckpointSummary, options: CheckpointOptions) -> bool:
        """Returns whether a checkpoint follows from the `fit`s before it, as this process has run or restored them."""
        if self._is_earlier(resumed, options):
            return False
        if "fit" not in resumed.record:
            raise RunDirError(
                f"The checkpoints in {options.run} are of a config's run. Expected those of a script. Give the "
                "directory of this script's run, or a new one."
            )
        return self._is_resuming and resumed.record["fit"]["after"] == self._mark

    def _remove_all(self, checkpoints: CheckpointManager) -> None:
        if self._is_chief:
            for entry in checkpoint_files.stored(Path(checkpoints.folder)):
                checkpoint_files.remove(entry)

    def _report_resume(self, fit: RegisteredFit, resumed: CheckpointSummary) -> None:
        replicas = self._strategy.num_replicas_in_sync
        if self._activity is not None:
            self._activity.resume(resumed.last_epoch, self._steps + resumed.total)
        if not self._is_chief:
            return
        workers = worker_count(self._strategy)
        note_resume(fit.options.run, resumed, workers=workers, replicas=replicas, attempt=self._attempt, fit=fit.number)
        change = change_of(resumed, replicas)
        print(f"tfdist: fit {fit.number + 1} resumes {place_of(resumed)}{change}", file=sys.stderr, flush=True)
        warn_of_other_kernels(resumed, replica_kernels())

    def _check_workers(self, request: CheckpointRequest | None) -> None:
        """All workers must be given the callbacks, or none: each would wait for the others."""
        if worker_count(self._strategy) == 1:
            return
        said = gather_objects(request is not None, self._strategy)
        if any(has != said[0] for has in said):
            without = ", ".join(str(index) for index, has in enumerate(said) if not has)
            raise UsageError(
                "tfdist.callbacks(...) saves and restores on all workers together, so that all must have it. Received: "
                f"a fit without it on worker {without}. Give it to fit on every worker; only the chief writes."
            )

    def _has_own_backup(self, given: Sequence[Any], options: CheckpointOptions) -> bool:
        if not any(isinstance(callback, keras.callbacks.BackupAndRestore) for callback in given):
            return False
        if options.is_asked_for:
            raise UsageError(
                "A fit has both tfdist.callbacks(...) and BackupAndRestore, and each would restore it. Expected one of "
                "them. Leave out BackupAndRestore, which begins the interrupted epoch again."
            )
        if self._is_chief:
            _log.warning("A fit with BackupAndRestore is left to it: the interrupted epoch is trained again.")
        return True

    def _base_summary(self) -> CheckpointSummary:
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
            kernels=replica_kernels(),
        )

    def note_training(self) -> None:
        """Notes that the current `fit` trains: those after it start anew."""
        self._is_resuming = False

    def note_end(self, mark: str, steps: int) -> None:
        """Notes the end of the current `fit`: the mark of its last checkpoint, and its steps."""
        self._mark = mark
        self._steps += steps
        self._current = None

    def save_now(self) -> str | None:
        """Saves the current `fit`, on all workers together; returns what was saved where, if anything."""
        return None if self._current is None else self._current.save_now()

    def _save_at_stop(self) -> str:
        if self._current is not None:
            return saved_words(self.save_now(), self._current.why_not_saved)
        if self._default_options is not None:
            return saved_words(None, "this fit is left to its BackupAndRestore")
        return saved_words(None, "no checkpoints: start with --resume auto, or give fit tfdist.callbacks()")
