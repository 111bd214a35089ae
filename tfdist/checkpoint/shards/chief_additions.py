"""The chief's additions to a checkpoint of which each worker has a shard.

By the launchers, as the disk of the shards may be full; by a file beside the shard where there are none. For a file
without content there is a place on a full disk, too.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from tfdist.checkpoint.pending_checkpoint import FileDigest, PendingCheckpoint
from tfdist.checkpoint.shards.joined_file import REST, SHARD_TABLE, shard_file_name
from tfdist.checkpoint.shards.staging_folder import Staging
from tfdist.errors import RunDirError
from tfdist.launch.worker.launcher_channel import chief_post
from tfdist.rundir import atomic_files
from tfdist.rundir.regular_files import read_json
from tfdist.sharding.file_shards import FileShards

SHARD_SECONDS = 240.0
"""Seconds that the chief waits for others' shards once it has written its own: less than the next one waits for it."""

_POLL_SECONDS = 0.02
_MOST_FAULT = 2000
"""Characters of why a shard could not be written."""


@dataclass(frozen=True)
class Receipt:
    """The outcome of a shard.

    Attributes:
        worker: Whose it is.
        digest: Of the file; None where it could not be written.
        fault: Why not; empty where it was.
    """

    worker: int
    digest: FileDigest | None
    fault: str = ""

    @classmethod
    def of(cls, content: Any) -> Self:
        """Reads what `content` has made.

        Raises:
            ValueError: It is something else.
        """
        match content:
            case {"worker": int(worker), "fault": str(fault)}:
                return cls(worker, None, fault[:_MOST_FAULT])
            case {"worker": int(worker), "bytes": int(size), "crc32": int(checksum)} if min(size, checksum) >= 0:
                return cls(worker, FileDigest(size, checksum))
        raise ValueError(f"expected a digest or a fault. Received: {content!r:.200}")

    def content(self) -> dict[str, Any]:
        """The receipt in JSON's types."""
        if self.digest is None:
            return {"worker": self.worker, "fault": self.fault[:_MOST_FAULT]}
        return {"worker": self.worker, "bytes": self.digest.size, "crc32": self.digest.checksum}

    @property
    def found(self) -> FileDigest | RunDirError:
        """The digest, or the error of a shard that is not there."""
        if self.digest is not None:
            return self.digest
        return RunDirError(f"Worker {self.worker} could not write its part of the checkpoint. {self.fault}")


def leave(folder: Path, receipt: Receipt) -> None:
    """Tells the chief.

    Raises:
        RunDirError: There is no launcher, and the file for it cannot be written; the chief learns of that alone, where
            the disk takes a name.
    """
    if not chief_post().tell(str(folder), receipt.content()):
        try:
            atomic_files.write_json(_path(folder, receipt.worker), receipt.content())
        except RunDirError:
            with contextlib.suppress(OSError):
                _mark(folder, receipt.worker).touch()
            raise


def collect(folder: Path, workers: int, seconds: float = SHARD_SECONDS) -> dict[int, FileDigest]:
    """Waits until all workers but the chief are done with their shards, also where one of them could not write its own.

    Returns:
        Worker -> the digest of its file.

    Raises:
        RunDirError: One has not written its shard, which the error names.
    """
    found: dict[int, FileDigest | RunDirError] = {}
    deadline = time.monotonic() + seconds
    while missing := [worker for worker in range(1, workers) if worker not in found]:
        found |= _told(folder, missing)
        if len(found) < workers - 1:
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
    for said in found.values():
        if isinstance(said, RunDirError):
            raise said
    if missing:
        raise _missing(missing, seconds)
    return {worker: said for worker, said in found.items() if isinstance(said, FileDigest)}


def _told(folder: Path, missing: list[int]) -> dict[int, FileDigest | RunDirError]:
    """Returns what those say, of whom it is missing, by the one way or the other."""
    found = {worker: said for worker in missing if (said := _said_by_file(folder, worker)) is not None}
    for content in chief_post().read(str(folder)):
        try:
            receipt = Receipt.of(content)
        except ValueError:  # of another kind: who has sent it is waited for
            continue
        if receipt.worker in missing:
            found[receipt.worker] = receipt.found
    return found


def _said_by_file(folder: Path, worker: int) -> FileDigest | RunDirError | None:
    try:
        return Receipt.of(read_json(_path(folder, worker))).found
    except FileNotFoundError:
        if not _mark(folder, worker).exists():
            return None
        return RunDirError(
            f"Worker {worker} could not write its part of the checkpoint, or what became of it: the disk of {folder} "
            "is full, or does not let it write. Its log says more."
        )
    except (OSError, ValueError) as error:
        return RunDirError(f"What worker {worker} says of its part of the checkpoint cannot be read: {error}")


def _missing(workers: list[int], seconds: float) -> RunDirError:
    names = ", ".join(map(str, workers))
    return RunDirError(
        f"The parts of the checkpoint from these workers did not come within {seconds:.0f} s: {names}. Expected each "
        "to write its part into the chief's folder. Look at their logs, and whether their disk answers."
    )


def _mark(folder: Path, worker: int) -> Path:
    return folder / f".no-receipt-{worker}"


def _path(folder: Path, worker: int) -> Path:
    return folder / f".receipt-{worker}.json"


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
                    collect(self.folder, shards.workers)
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
        found = collect(folder, shards.workers) if self._sent is None else self._sent
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
