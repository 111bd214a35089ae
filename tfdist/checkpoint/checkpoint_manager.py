"""Checkpoint manager of a run: the chief writes and reads the files, and hands what it restores to all workers."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import keras
import numpy as np
import tensorflow as tf

from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_contents import CheckpointSummary, contents_fault, load_arrays
from tfdist.checkpoint.checkpoint_files import REPLICAS, WEIGHTS, StoredPath, opened, summary_of
from tfdist.checkpoint.checkpoint_policies import RetentionPolicy
from tfdist.checkpoint.checkpoint_pruner import CheckpointPruner
from tfdist.checkpoint.checkpoint_store import is_remote, open_store
from tfdist.checkpoint.checkpoint_writer import CheckpointWriter, WeightsSnapshot
from tfdist.checkpoint.generation_claim import by_generation, claim_on
from tfdist.checkpoint.shards.chief_additions import ShardAssembly, ShardSnapshot
from tfdist.checkpoint.shards.joined_file import has_sharded_weights, opened_weights
from tfdist.checkpoint.shards.sharded_saving import ShardedSaving
from tfdist.checkpoint.shards.staging_folder import all_reach
from tfdist.errors import RunDirError
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.chief_broadcast import opened_file_from_chief, text_from_chief
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.object_stores import path_of
from tfdist.runtime.workers import worker_count, worker_rank

WAIT_SECONDS = 300.0
"""Seconds that anything waits for the checkpoint that is being written; after that the disk counts as hanging."""

_LONG_SECONDS = 1.0
"""A wait of the training that is logged."""

WhenBusy = Literal["wait", "skip"]

ShapeOf = Callable[[Any], Sequence[int]]

_log = logging.getLogger("tfdist")


def _own_shape(variable: Any) -> Sequence[int]:
    shape: Sequence[int] = variable.shape
    return shape


class CheckpointManager:
    """Saves and restores. All workers call each method together, unless it says otherwise.

    One checkpoint is written at a time, in the background. Its failure is logged as a warning and ends nothing.

    Attributes:
        folder: Where they lie on the chief's machine, or a URL.

    Args:
        folder: Where they lie on the chief's machine, made when the first is saved; or a URL such as s3://bucket/run.
        retention: Which are kept.
        strategy: The process's strategy.
        when_busy: Whether a checkpoint that is due while another is written waits for it, or is skipped.
        restoring: Entered while a checkpoint is searched and read.
        claimed_by: The start of the job that has the folder from now on, see `GenerationClaim`; empty without a
            launcher.
        is_elastic: Whether another start may be under way. A folder that such a one has claimed is claimed anyhow.

    Raises:
        RunDirError: The folder cannot be claimed.
    """

    def __init__(
        self,
        folder: str | Path,
        retention: RetentionPolicy,
        strategy: tf.distribute.Strategy,
        when_busy: WhenBusy = "wait",
        restoring: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        claimed_by: str = "",
        is_elastic: bool = False,
    ) -> None:
        self.folder = folder
        self._strategy = strategy
        self._when_busy = when_busy
        self._restoring = restoring
        self._restored_from: str | None = None
        self._is_chief = worker_rank(strategy) == 0
        self._job: CheckpointWriter | None = None
        self._seconds = 0.0
        self._hangs = False
        self._store = open_store(folder)
        self._pruner = CheckpointPruner(self._store, retention)
        self._has_warned = False
        self._claim = claim_on(self._store.folder, claimed_by) if claimed_by and self._is_chief else None
        self._sharded = ShardedSaving(self._store, strategy)
        writer().wait(WAIT_SECONDS)  # of an earlier training in this process
        if self._is_chief:
            if self._claim is not None and not (is_elastic or self._claim.has_others()):
                self._claim = None
            if self._claim is not None:
                _log.info("generation %d of the checkpoints in %s", self._claim.take(), folder)
            self._store.remove_unfinished()

    def ready(self, step: int, *, must: bool = False) -> bool:
        """Returns whether a checkpoint can be made now; waits for the one before where `when_busy` says so. On the
        chief.

        Args:
            step: Steps of the run that are done.
            must: Whether to wait, whatever `when_busy` says.

        Raises:
            SupersededError: A later start of the run has the checkpoints, as was found when the last one was written.
        """
        if self._job is not None and self._job.superseded is not None:
            raise self._job.superseded
        if not writer().is_busy:
            self._hangs = False
            return True
        begun = time.monotonic()
        waits = (must or self._when_busy == "wait") and not self._hangs
        is_free = waits and writer().wait(WAIT_SECONDS)
        self._hangs |= waits and not is_free  # only once for a writer that never ends
        self._log_wait(step, is_free, time.monotonic() - begun)
        return is_free

    def save(self, weights: WeightsSnapshot, values: Mapping[str, np.ndarray], summary: CheckpointSummary) -> None:
        """Copies what a checkpoint needs, starts to write it in the background, and returns. On the chief, when ready.

        Once it is whole, those that the retention policy does not keep are removed.

        Args:
            weights: The weights of the model and the state of the optimizer.
            values: The values of the replicas; the arrays are not changed any more.
            summary: The rest.
        """
        weights.take()
        self._start(weights, values, summary)

    def save_shards(
        self, weights: ShardSnapshot, values: Mapping[str, np.ndarray], summary: CheckpointSummary | None, step: int
    ) -> bool:
        """As `save`, of a model of which each worker has a shard, which it writes itself; on all workers.

        Args:
            weights: This worker's shard.
            values: The values of the replicas; the arrays are not changed any more.
            summary: The rest, on the chief.
            step: Steps of the run that are done.

        Returns:
            Whether it is being written, the same on all workers; if not, the chief has said why.
        """
        left = self._sharded.begin(weights, step)
        if left is not None and summary is not None:
            self._start(left, values, summary)
        return left is not None

    def _start(
        self, weights: WeightsSnapshot | ShardAssembly, values: Mapping[str, np.ndarray], summary: CheckpointSummary
    ) -> None:
        self._seconds = self.background_seconds
        check, generation = ((lambda: None), 0) if self._claim is None else (self._claim.check, self._claim.number)
        self._job = CheckpointWriter(self._store, weights, values, summary, self._pruner, check, generation)
        writer().start(self._job.run)

    def finish(self, seconds: float = WAIT_SECONDS) -> bool:
        """Waits until the checkpoint that is being written is on the disk. On the chief.

        Args:
            seconds: How long to wait at most.

        Returns:
            Whether the last one started is whole; True where none was.
        """
        if not writer().wait(seconds):
            _log.warning(
                "The checkpoint in %s is not on the disk after %.0f s. It counts as missing. Expected a disk that "
                "answers.",
                self.folder,
                seconds,
            )
            return False
        return self._job is None or self._job.is_whole

    @property
    def background_seconds(self) -> float:
        """Seconds for which checkpoints have been written in the background, without the current one."""
        return self._seconds + (0.0 if self._job is None else self._job.seconds)

    def _log_wait(self, step: int, is_free: bool, seconds: float) -> None:
        if not is_free:
            text = f"No checkpoint at step {step}: the one before is still being written"
        elif seconds >= _LONG_SECONDS:
            text = f"At step {step} the training waited {seconds:.1f} s for the checkpoint before to be written"
        else:
            return
        hint = "" if self._has_warned else ". Save less often, or onto a faster disk (docs/checkpoints.md)"
        _log.log(logging.INFO if self._has_warned else logging.WARNING, "%s%s.", text, hint)
        self._has_warned = True

    def check_none(self) -> None:
        """Checks that no other run has checkpoints here, which this one would take for its own and remove.

        Raises:
            RunDirError: There are some.
        """
        if broadcast(self._is_chief and bool(self._store.stored()), strategy=self._strategy):
            raise of_another_run(self.folder)

    def latest(self) -> tuple[CheckpointSummary, str] | None:
        """The latest checkpoint that is whole, and its path on the chief's machine; None when there is none.

        A warning names a damaged one, and the one before it is taken.
        """
        with self._restoring():
            text = text_from_chief(self._find_latest() if self._is_chief else "", self._strategy)
        if not text:
            return None
        found = json.loads(text)
        self._restored_from = found["path"]
        return CheckpointSummary.from_dict(found["summary"]), found["path"]

    def restore_weights(
        self, model: keras.Model, summary: CheckpointSummary, shape_of: ShapeOf = _own_shape
    ) -> None:
        """Gives a model the weights, and its optimizer the state, of the checkpoint that `latest` found.

        Args:
            model: Built and compiled, with its optimizer.
            summary: The checkpoint's.
            shape_of: Returns the shape that a checkpoint has for a variable of the optimizer.

        Raises:
            RunDirError: The saved model was another one.
        """
        there, here = [_shown(entry) for entry in summary.variables], [_shown(e) for e in variables_of(model, shape_of)]
        if there != here:
            names = [variable.path for variable in (*model.weights, *model.optimizer.variables)]
            raise RunDirError(_another_model(self._restored_from, names, here, there))
        with self._restoring(), self._weights() as weights:
            model.load_weights(weights)

    def replica_values(self) -> dict[str, np.ndarray]:
        """The replicas' values of the checkpoint that `latest` found."""
        with self._restoring(), self._copy(REPLICAS) as path:
            return load_arrays(path)

    def _find_latest(self) -> str:
        stored = self._store.stored()
        for entry in stored if self._claim is None else by_generation(stored):
            fault = entry.fault() or contents_fault(entry)
            if fault is None:
                return json.dumps({"path": str(entry.path), "summary": summary_of(entry)})
            _log.warning(
                "The checkpoint %s is damaged: %s. The one before it is taken.", entry.path, fault
            )
        return ""

    @contextlib.contextmanager
    def _weights(self) -> Iterator[Path | BinaryIO]:
        """The checkpoint's weights, as `load_weights` takes them, for as long as the block runs.

        Where they lie in shards that this worker reaches, it reads of them what it needs.
        """
        found = self._found()
        if not is_remote(found) and all_reach(found, self._strategy) and has_sharded_weights(Path(found)):
            with opened_weights(Path(found)) as file:
                yield file
            return
        with self._copy(WEIGHTS) as path:
            yield path

    @contextlib.contextmanager
    def _copy(self, name: str) -> Iterator[Path]:
        """A file of the checkpoint on this worker's machine, for as long as the block runs."""
        found = self._found()
        if worker_count(self._strategy) == 1 and not is_remote(found) and (Path(found) / name).exists():
            yield Path(found) / name
            return
        place = path_of(found) if is_remote(found) else Path(found)
        with temporary_folder("checkpoint") as folder:
            with (_opened(place, name) if self._is_chief else contextlib.nullcontext()) as source:
                is_there = opened_file_from_chief(source, folder / name, self._strategy)
            if not is_there:
                raise RunDirError(
                    f"{name} of the checkpoint {found} has disappeared since it was checked. Expected that nothing "
                    "removes the checkpoints of a run that resumes. Run the command again."
                )
            yield folder / name

    def _found(self) -> str:
        assert self._restored_from is not None, "latest() finds what is restored"
        return self._restored_from


def _opened(folder: StoredPath, name: str) -> contextlib.AbstractContextManager[BinaryIO | None]:
    """Opens a file of a checkpoint; None where there is none."""
    if (folder / name).exists():
        return opened(folder / name)
    return opened_weights(folder) if name == WEIGHTS and has_sharded_weights(folder) else contextlib.nullcontext()


def of_another_run(folder: str | Path) -> RunDirError:
    """The error of a run that starts anew and finds checkpoints."""
    return RunDirError(
        f"There are checkpoints of another run in {folder}. Expected none, as this run starts anew. Resume that run "
        "with --resume auto, or choose another checkpoint.directory or --run-dir."
    )


def variables_of(model: keras.Model, shape_of: ShapeOf = _own_shape) -> list[tuple[list[int], str]]:
    """Shape and dtype of each variable in a file of `model`'s weights: the model's, then the optimizer's.

    Args:
        model: Built and compiled, with its optimizer.
        shape_of: Returns the shape that the file has for a variable of the optimizer.
    """
    weights = [(list(variable.shape), str(variable.dtype)) for variable in model.weights]
    return weights + [(list(shape_of(variable)), str(variable.dtype)) for variable in model.optimizer.variables]


def _shown(entry: Any) -> str:
    shape, dtype = entry
    return f"{dtype} {tuple(shape)}"


def _another_model(path: str | None, names: Sequence[str], here: Sequence[str], there: Sequence[str]) -> str:
    place = next((i for i, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), None)
    what = (
        f"it has {len(there)} variables, with the optimizer's, and the model {len(here)}"
        if place is None
        else f"its variable {place} is {there[place]}, and that of the model, {names[place]}, is {here[place]}"
    )
    return (
        f"The checkpoint {path} is of another model or optimizer than the config's: {what}. Expected the config that "
        "was trained. Train with that one, or choose another --run-dir."
    )
