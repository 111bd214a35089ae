"""The chief's additions to a checkpoint of which each worker has a shard."""

from __future__ import annotations

import contextlib
import json
import mmap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tfdist.checkpoint.pending_checkpoint import FileDigest, PendingCheckpoint
from tfdist.checkpoint.shards import shard_receipts
from tfdist.checkpoint.shards.shard_file_names import REST, SHARD_TABLE, shard_file_name
from tfdist.checkpoint.shards.staging_folder import Staging
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files
from tfdist.sharding.file_shards import FileShards


class ShardSnapshot(Protocol):
    """A copy of this worker's shard of a model's weights and its optimizer's state, ready to be written."""

    def take(self) -> None:
        """Copies it to host memory; all workers call it together."""

    def content(self) -> memoryview:
        """This worker's bytes, uint8; called in another thread, and never while `take` runs."""

    def rest(self) -> memoryview:
        """On the chief, the bytes that no worker's shard has."""

    @property
    def shards(self) -> FileShards:
        """On the chief, which bytes of the file of weights each worker has."""


class ShardAssembly:
    """The file of weights in shards, for one checkpoint.

    Args:
        staging: Where it is made.
        weights: The chief's, copied already.
        sent: Worker -> the digest of its file, where workers have sent theirs; None where each writes its own.
        spool: Where the sent ones lie until they are written into a store; None where they lie in the checkpoint.
        done: Called when they are needed no longer.
    """

    def __init__(
        self,
        staging: Staging,
        weights: ShardSnapshot,
        sent: Mapping[int, FileDigest] | None = None,
        spool: Path | None = None,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = staging.folder
        self._staging = staging
        self._weights = weights
        self._sent = sent
        self._spool = spool
        self._done = done

    def add_to(self, draft: PendingCheckpoint) -> None:
        """Writes the chief's own files, and takes those of the other workers as they come.

        Raises:
            OSError: A file cannot be written.
            RunDirError: A worker's shard does not come.
        """
        try:
            self._add_all(draft)
        finally:
            self._done()

    def _add_all(self, draft: PendingCheckpoint) -> None:
        shards = self._weights.shards
        try:
            self._add_own(draft, shards)
        except BaseException:
            if self._sent is None and self.folder is not None:
                # The folder is removed now, and nobody is to write there then.
                with contextlib.suppress(RunDirError):
                    shard_receipts.collect(self.folder, shards.workers)
            raise
        if self._spool is not None:
            self._add_spooled(draft, self._spool, shards.workers)
        else:
            self._adopt(draft, shards)
        self._staging.clean()

    def _add_own(self, draft: PendingCheckpoint, shards: FileShards) -> None:
        draft.add(SHARD_TABLE, json.dumps(shards.to_dict()).encode())
        draft.add(REST, self._weights.rest())
        draft.add(shard_file_name(0, shards.workers), self._weights.content())

    def _adopt(self, draft: PendingCheckpoint, shards: FileShards) -> None:
        folder = self.folder
        assert folder is not None, "a store of this machine"
        found = shard_receipts.collect(folder, shards.workers) if self._sent is None else self._sent
        for worker, digest in found.items():
            name = shard_file_name(worker, shards.workers)
            if self._sent is not None:
                atomic_files.sync(folder / name)
            draft.adopt(name, digest)

    def _add_spooled(self, draft: PendingCheckpoint, spool: Path, workers: int) -> None:
        for worker in range(1, workers):
            path = spool / shard_file_name(worker, workers)
            if path.stat().st_size == 0:
                draft.add(path.name, b"")
                continue
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(path.open("rb"))
                mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                draft.add(path.name, stack.enter_context(memoryview(mapped)))
