"""Checkpoints on the disk: written beside their place, flushed, renamed, and only then marked as whole.

A checkpoint is a directory `step-00000120` with its files and a marker, which names each file with its size and its
CRC-32, which finds damage in half the time of SHA-256. Whatever kills the writer, at whatever byte, the checkpoints
before stay as they are, and what lacks its marker is none. A second checkpoint of the same step is `step-00000120.1`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfdist.checkpoint.pending_checkpoint import FileDigest, PendingCheckpoint
from tfdist.errors import RunDirError
from tfdist.rundir import atomic_files, direct_io

MARKER = "checkpoint.json"

WEIGHTS = "model.weights.h5"
"""Weights and the optimizer's state; `keras.Model.load_weights` reads it."""

REPLICAS = "replicas.npz"
"""Values of which each replica has its own: `tfdist.runtime.replica_values`."""

SUMMARY = "summary.json"
"""A `CheckpointSummary`."""

_BLOCK = 1 << 18
"""Bytes of a file that are read at a time: they are still in the processor's cache when they are looked at."""

_OUT_OF_REACH = frozenset(
    {errno.EACCES, errno.EPERM, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ESTALE, errno.EMFILE, errno.ENFILE}
)
"""Errors of reading that say nothing of what would have been read."""

_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")
_TEMPORARY = ".step-*.tmp"


FileComparison = Callable[[Path, FileDigest], str | None]
"""Says what is wrong with a file that is there, for people; None for nothing."""


@dataclass(frozen=True, order=True)
class StoredCheckpoint:
    """A directory with the name of a checkpoint, whole or not. The later one is greater.

    Attributes:
        step: Steps of the run that were done.
        number: Counts those of the same step, from 0.
        path: The directory.
    """

    step: int
    number: int
    path: Path

    @property
    def is_marked(self) -> bool:
        """Whether its writer came to its end.

        Raises:
            RunDirError: That cannot be seen.
        """
        with _told_when_out_of_reach(self.path):
            return (self.path / MARKER).exists()

    def fault(self) -> str | None:
        """What is wrong with it, for people; None when every byte is as it was written. Reads all of it.

        Raises:
            RunDirError: It cannot be reached, which says nothing of it.
        """
        return next(self.faults(other_bytes), None)

    def faults(self, look: FileComparison) -> Iterator[str]:
        """What is wrong with the files that its marker names, one text each.

        Args:
            look: `other_bytes`, which reads every byte, or `wrong_size`, which is quick and blind to a changed byte.

        Raises:
            RunDirError: It cannot be reached, which says nothing of it.
        """
        with _told_when_out_of_reach(self.path):
            yield from self._faults(look)

    def _faults(self, look: FileComparison) -> Iterator[str]:
        try:
            marked = json.loads((self.path / MARKER).read_bytes())["files"]
            named = {name: FileDigest(int(told["bytes"]), int(told["crc32"])) for name, told in marked.items()}
        except OSError as error:
            if error.errno in _OUT_OF_REACH:
                raise
            yield f"{MARKER} cannot be read: {error.strerror}"
            return
        except (ValueError, KeyError, TypeError, AttributeError):
            yield f"{MARKER} is damaged"
            return
        for name, told in named.items():
            try:
                fault = look(self.path / name, told)
            except OSError as error:
                if error.errno in _OUT_OF_REACH:
                    raise
                fault = f"{name} cannot be read: {error.strerror}"
            if fault is not None:
                yield fault


def wrong_size(file: Path, told: FileDigest) -> str | None:
    """What is wrong with a file's size."""
    size = file.stat().st_size
    return None if size == told.size else f"{file.name} has {size:,} bytes instead of {told.size:,}"


def other_bytes(file: Path, told: FileDigest) -> str | None:
    """What is wrong with a file, every byte of which is read."""
    wrong = wrong_size(file, told)
    if wrong is None and checksum(file) != told.checksum:
        return f"the checksum of {file.name} is not the one that was written down"
    return wrong


def content_of(file: Path) -> bytes:
    """The bytes of a file of a checkpoint; none where it is absent or damaged.

    Raises:
        RunDirError: It cannot be reached, which says nothing of it.
    """
    with _told_when_out_of_reach(file.parent):
        try:
            return file.read_bytes()
        except OSError as error:
            if error.errno in _OUT_OF_REACH:
                raise
            return b""


def stored(folder: Path) -> list[StoredCheckpoint]:
    """The checkpoints in a folder, the latest first; whether they are whole is not looked at.

    Args:
        folder: A local one, or a `RemotePath`, which reads like one. There may be none.

    Raises:
        RunDirError: It cannot be read. Nobody may take that for an empty one, and begin a run anew.
    """
    try:
        with _told_when_out_of_reach(folder):
            names = [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    matches = [match for match in map(_NAME.fullmatch, names) if match]
    found = [StoredCheckpoint(int(match[1]), int(match[2] or 0), folder / match[0]) for match in matches]
    return sorted(found, reverse=True)


@contextlib.contextmanager
def writing(folder: Path, step: int) -> Iterator[PendingCheckpoint]:
    """Yields an empty checkpoint; it is the latest of `step` at a clean exit.

    Args:
        folder: Made when it is not there. One process writes into it.
        step: Steps of the run that are done.

    Raises:
        RunDirError: The disk is full, or cannot be written. Nothing half-written is left.
    """
    beside = made = folder / f".step-{step:08d}.{secrets.token_hex(4)}.tmp"
    try:
        beside.mkdir(parents=True)
        draft = PendingCheckpoint(lambda name, content: direct_io.write_uncached(beside / name, content))
        yield draft
        atomic_files.sync(beside)
        target = folder / free_name(stored(folder), step)
        os.rename(beside, target)
        made = target
        atomic_files.sync(folder)
        atomic_files.write_json(target / MARKER, draft.marker())
    except BaseException as error:
        # All of it, under whichever name: on a full disk the next one needs the room.
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, OSError) or (isinstance(error, Exception) and atomic_files.is_full(error)):
            raise atomic_files.write_error(folder, error) from error
        raise


def remove(checkpoint: StoredCheckpoint) -> None:
    """Removes a checkpoint, its marker first, so that none without its files is taken for whole."""
    with contextlib.suppress(OSError):  # what cannot be removed now is tried again with the next one
        (checkpoint.path / MARKER).unlink(missing_ok=True)
        shutil.rmtree(checkpoint.path)


def remove_unfinished(folder: Path) -> None:
    """Removes what a writer that was killed has left behind."""
    for beside in folder.glob(_TEMPORARY):
        shutil.rmtree(beside, ignore_errors=True)
    for checkpoint in stored(folder):
        if not checkpoint.is_marked:
            remove(checkpoint)


def free_name(entries: Sequence[StoredCheckpoint], step: int) -> str:
    """The name of the next checkpoint of `step` beside those that there are."""
    taken = [entry.number for entry in entries if entry.step == step]
    return f"step-{step:08d}" + (f".{max(taken) + 1}" if taken else "")


def checksum(file: Path) -> int:
    """The CRC-32 of a file's bytes."""
    found = 0
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found


@contextlib.contextmanager
def _told_when_out_of_reach(place: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise RunDirError(
            f"The checkpoints in {place} are out of reach: {error.strerror or error}. Expected a directory, or a "
            "bucket, that answers and that this user may read. Check checkpoint.directory, its permissions, the "
            "network and the credentials."
        ) from error
