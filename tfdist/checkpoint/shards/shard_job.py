"""A worker writes its shard of a checkpoint: a job for the background, on every worker but the chief."""

from __future__ import annotations

import contextlib
import logging
import zlib
from pathlib import Path

from tfdist.checkpoint.pending_checkpoint import FileDigest
from tfdist.checkpoint.shards import shard_receipts
from tfdist.checkpoint.shards.shard_file_names import shard_file_name
from tfdist.checkpoint.shards.shard_receipts import Receipt
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files, direct_io

_log = logging.getLogger("tfdist")


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
            shard_receipts.leave(self._folder, receipt)
        except RunDirError as error:
            # The chief waits for it, and then names this worker.
            _log.warning("The chief does not learn what became of this worker's part of a checkpoint. %s", error)
