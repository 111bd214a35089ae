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
    """Waits until all workers but the chief are done with their parts, also where one of them could not write its own.

    Returns:
        Worker -> the digest of its file.

    Raises:
        RunDirError: One has not written its part, which the error names.
    """
    found: dict[int, FileDigest | RunDirError] = {}
    deadline = time.monotonic() + seconds
    while missing := [worker for worker in range(1, workers) if worker not in found]:
        found |= {worker: said for worker in missing if (said := _said_by(folder, worker)) is not None}
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


def _said_by(folder: Path, worker: int) -> FileDigest | RunDirError | None:
    try:
        content = read_json(_path(folder, worker))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return RunDirError(f"What worker {worker} says of its part of the checkpoint cannot be read: {error}")
    if "fault" in content:
        return RunDirError(f"Worker {worker} could not write its part of the checkpoint. {content['fault']}")
    return FileDigest(content["bytes"], content["crc32"])


def _missing(workers: list[int], seconds: float) -> RunDirError:
    names = ", ".join(map(str, workers))
    return RunDirError(
        f"The parts of the checkpoint from these workers did not come within {seconds:.0f} s: {names}. Expected each "
        "to write its part into the chief's folder. Look at their logs, and whether their disk answers."
    )


def _path(folder: Path, worker: int) -> Path:
    return folder / f".receipt-{worker}.json"
