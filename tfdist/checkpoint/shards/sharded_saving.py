"""Copies what the workers write of a checkpoint that is made in shards, and starts to write it on each of them."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import tensorflow as tf

from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_store import CheckpointStore
from tfdist.checkpoint.shards.folder_agreement import agreed_staging
from tfdist.checkpoint.shards.shard_assembly import ShardAssembly, ShardSnapshot
from tfdist.checkpoint.shards.shard_job import ShardJob
from tfdist.checkpoint.shards.shard_streams import send_shards
from tfdist.checkpoint.shards.staging_folder import Staging, make_folder
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.decisions import broadcast
from tfdist.runtime.workers import worker_count, worker_rank

_log = logging.getLogger("tfdist")


class ShardedSaving:
    """Saves in shards. All workers call `begin` together.

    Args:
        store: Where the checkpoints lie; the chief's alone counts.
        strategy: The strategy in force.
    """

    def __init__(self, store: CheckpointStore, strategy: tf.distribute.Strategy) -> None:
        self._store = store
        self._strategy = strategy
        self._worker, self._workers = worker_rank(strategy), worker_count(strategy)
        self._spools = contextlib.ExitStack()

    def begin(self, weights: ShardSnapshot, step: int) -> ShardAssembly | None:
        """Copies every worker's shard, and starts to write those of the others in the background.

        Where a worker does not reach the chief's folder, or it has a URL, all others send theirs to the chief.

        Args:
            weights: This worker's.
            step: Steps of the run that are done.

        Returns:
            On the chief, what is left to write; on the others, something else than None. None on all workers where no
            checkpoint can be made, which the chief says.
        """
        is_local = isinstance(self._store.folder, Path)
        folder = self._make_folder(step) if self._worker == 0 and is_local else None
        staging = agreed_staging(folder, self._strategy)
        is_ready = staging.folder is not None or not broadcast(is_local, strategy=self._strategy)
        if not is_ready or staging.busy:
            self._refuse(staging, step)
            return None
        try:
            weights.take()
            if staging.is_common:
                return self._begin_common(weights, staging)
            return self._send(weights, staging, step)
        except BaseException:
            if self._worker == 0:
                staging.discard()
            raise

    def _make_folder(self, step: int) -> Path | None:
        try:
            return make_folder(self._store.folder, step)
        except RunDirError as error:
            _log.warning("No checkpoint at step %d. The training continues without it. %s", step, error)
            return None

    def _refuse(self, staging: Staging, step: int) -> None:
        if self._worker != 0:
            return
        staging.discard()
        if staging.busy:
            _log.warning(
                "No checkpoint at step %d: workers are still writing their parts of the one before: %s. Expected "
                "disks that answer.",
                step,
                ", ".join(map(str, staging.busy)),
            )

    def _begin_common(self, weights: ShardSnapshot, staging: Staging) -> ShardAssembly:
        assert staging.folder is not None, "all workers reach it"
        if self._worker != 0:
            writer().start(ShardJob(staging.folder, self._worker, self._workers, weights.content()).run)
        return ShardAssembly(staging, weights)

    def _send(self, weights: ShardSnapshot, staging: Staging, step: int) -> ShardAssembly | None:
        self._spools.close()
        spool = None
        if self._worker == 0 and staging.folder is None:
            spool = self._spools.enter_context(temporary_folder("checkpoint"))
        sent = send_shards(weights.content(), staging.folder or spool, self._strategy)
        if isinstance(sent, OSError):
            staging.discard()
            error = atomic_files.write_error(str(self._store.folder), sent)
            _log.warning("No checkpoint at step %d. The training continues without it. %s", step, error)
        if broadcast(isinstance(sent, OSError), strategy=self._strategy) or isinstance(sent, OSError):
            return None
        return ShardAssembly(staging, weights, sent, spool, self._spools.close)
