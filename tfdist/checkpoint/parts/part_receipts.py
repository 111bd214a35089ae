"""What a worker says of its part to the chief, in a file beside it: the training goes on meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tfdist.checkpoint.pending_checkpoint import FileDigest
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files
from tfdist.rundir.regular_files import read_json

PART_SECONDS = 240.0
"""How long the chief waits for the parts of others once it has written its own: less than the next one waits for it."""

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Receipt:
    """What became of a part.

    Attributes:
        digest: Of the file; None where it could not be written.
        fault: Why not; empty where it was.
    """

    digest: FileDigest | None
    fault: str = ""


def leave(folder: Path, worker: int, receipt: Receipt) -> None:
    """Leaves a receipt for the chief. Raises `RunDirError` when it cannot be written."""
    digest = receipt.digest
    content = {"fault": receipt.fault} if digest is None else {"bytes": digest.size, "crc32": digest.checksum}
    atomic_files.write_json(_path(folder, worker), content)


def collect(folder: Path, workers: int, seconds: float = PART_SECONDS) -> dict[int, FileDigest]:
    """Waits until all workers but the chief have written their parts.

    Returns:
        Worker -> the digest of its file.

    Raises:
        RunDirError: One has not, which the error names.
    """
    found: dict[int, FileDigest] = {}
    deadline = time.monotonic() + seconds
    while len(found) < workers - 1:
        for worker in range(1, workers):
            if worker not in found and (receipt := _receipt_of(folder, worker)) is not None:
                found[worker] = receipt
        if len(found) < workers - 1:
            if time.monotonic() > deadline:
                raise _missing([worker for worker in range(1, workers) if worker not in found], seconds)
            time.sleep(_POLL_SECONDS)
    return found


def _receipt_of(folder: Path, worker: int) -> FileDigest | None:
    try:
        content = read_json(_path(folder, worker))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunDirError(f"What worker {worker} says of its part of the checkpoint cannot be read: {error}") from error
    if "fault" in content:
        raise RunDirError(f"Worker {worker} could not write its part of the checkpoint. {content['fault']}")
    return FileDigest(content["bytes"], content["crc32"])


def _missing(workers: list[int], seconds: float) -> RunDirError:
    names = ", ".join(map(str, workers))
    return RunDirError(
        f"The parts of the checkpoint from these workers did not come within {seconds:.0f} s: {names}. Expected each "
        "to write its part into the chief's folder. Look at their logs, and whether their disk answers."
    )


def _path(folder: Path, worker: int) -> Path:
    return folder / f".receipt-{worker}.json"
