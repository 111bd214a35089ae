"""Sends what a worker says of its shard to the chief, while the training goes on.

By the launchers, as the disk of the shards may be full; by a file beside the shard where there are none. For a file
without content there is a place on a full disk, too.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tfdist.checkpoint.pending_checkpoint import FileDigest
from tfdist.errors import RunDirError
from tfdist.launch.worker.chief_post import chief_post
from tfdist.rundir import atomic_files
from tfdist.rundir.regular_files import read_json

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
