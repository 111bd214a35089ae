"""Copies what the workers write of a checkpoint that is made in shards, and starts to write it on each of them.

A worker writes its shard of a checkpoint: a job for the background, on every worker but the chief.

The shards of workers that do not reach the chief's folder, sent to the chief piece by piece.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import tensorflow as tf

from tfdist.checkpoint.background_writer import writer
from tfdist.checkpoint.checkpoint_store import CheckpointStore
from tfdist.checkpoint.pending_checkpoint import FileDigest
from tfdist.checkpoint.shards import chief_additions
from tfdist.checkpoint.shards.chief_additions import Receipt, ShardAssembly, ShardSnapshot
from tfdist.checkpoint.shards.joined_file import shard_file_name
from tfdist.checkpoint.shards.staging_folder import Staging, agreed_staging, make_folder
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files, direct_io
from tfdist.rundir.temp_names import temporary_folder
from tfdist.runtime.collectives.chief_broadcast import PIECE_BYTES
from tfdist.runtime.collectives.decisions import all_gather, broadcast
from tfdist.runtime.workers import worker_count, worker_rank


def send_shards(
    content: memoryview, folder: Path | None, strategy: tf.distribute.Strategy
) -> dict[int, FileDigest] | OSError:
    """Sends the shards of all other workers to the chief, which writes them; all workers call it together.

    Args:
        content: This worker's shard.
        folder: On the chief, where they go.
        strategy: The strategy in force.

    Returns:
        On the chief, worker -> the digest of its file, or why they cannot be written. Nothing elsewhere.
    """
    workers, is_chief = worker_count(strategy), worker_rank(strategy) == 0
    sizes = [int(size) for size in all_gather(np.int64(len(content)), strategy)]
    files = [_ShardFile(folder / shard_file_name(w, workers)) for w in range(1, workers)] if is_chief and folder else []
    piece = max(1 << 16, PIECE_BYTES // workers)
    with contextlib.ExitStack() as closing:
        for file in files:
            closing.callback(file.close)
        for start in range(0, max(sizes[1:], default=0), piece):
            length = min(piece, max(sizes[1:]) - start)
            mine = np.zeros(length, np.uint8)
            own = content[start : start + length] if not is_chief else content[:0]
            mine[: len(own)] = own
            rows = all_gather(mine, strategy)
            for file, row, size in zip(files, rows[1:], sizes[1:], strict=False):
                file.add(row[: max(0, min(length, size - start))])
    failed = next((file.error for file in files if file.error is not None), None)
    return failed or {worker: file.digest for worker, file in enumerate(files, 1)}


class _ShardFile:
    """A file that grows; after an error it takes what comes, and writes no more: the other workers go on sending."""

    def __init__(self, path: Path) -> None:
        self.error: OSError | None = None
        self._size = self._checksum = 0
        self._file: BinaryIO | None = None
        try:
            self._file = path.open("wb")
        except OSError as error:
            self.error = error

    @property
    def digest(self) -> FileDigest:
        return FileDigest(self._size, self._checksum)

    def add(self, content: np.ndarray) -> None:
        if self._file is None or self.error is not None:
            return
        try:
            self._file.write(content.data)
        except OSError as error:
            self.error = error
        self._size += len(content)
        self._checksum = zlib.crc32(content.data, self._checksum)

    def close(self) -> None:
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self.error = self.error or error


class ShardJob:
    """Writes one shard, once. What fails is said to the chief, and ends nothing.

    Args:
        folder: The chief's, which this worker reaches.
        worker: This one.
        workers: How many share the checkpoint.
        content: Its shard, not changed until the job has ended.
    """

    def __init__(self, folder: Path, worker: int, workers: int, content: memoryview) -> None:
        self._folder = folder
        self._worker = worker
        self._file = folder / shard_file_name(worker, workers)
        self._content = content

    def run(self) -> None:
        """Writes it, and waits until the disk has it."""
        try:
            direct_io.write_uncached(self._file, self._content)
        except OSError as error:
            # The chief needs the room.
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
            fault = str(atomic_files.write_error(self._file, error))
            _log.warning("This worker's part of a checkpoint is missing. %s", fault)
            self._leave(Receipt(self._worker, None, fault))
        else:
            digest = FileDigest(len(self._content), zlib.crc32(self._content))
            self._leave(Receipt(self._worker, digest))
        del self._content

    def _leave(self, receipt: Receipt) -> None:
        try:
            chief_additions.leave(self._folder, receipt)
        except RunDirError as error:
            # The chief waits for it, and then names this worker.
            _log.warning("The chief does not learn what became of this worker's part of a checkpoint. %s", error)


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
