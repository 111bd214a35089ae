"""Checkpoints on the disk: written under a temporary name, flushed, renamed, and only then marked as whole.

A checkpoint is a directory `step-00000120` with its files and a marker, which names each file with its size and its
CRC-32, which finds damage in half the time of SHA-256. Wherever the writer is killed, earlier checkpoints stay as they
are, and a directory without a marker is no checkpoint. A second one of the same step is `step-00000120.1`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tfdist import bounded_json
from tfdist.checkpoint.pending_checkpoint import FileDigest, PendingCheckpoint
from tfdist.errors import RunDirError, StoreError
from tfdist.rundir import atomic_files, direct_io
from tfdist.rundir.regular_files import MOST_JSON_BYTES, is_bare_name, open_regular, regular_size
from tfdist.storage.object_path import ObjectPath
from tfdist.storage.object_store import NoAnswerError

MARKER = "checkpoint.json"

WEIGHTS = "model.weights.h5"
"""Weights and the optimizer's state; `keras.Model.load_weights` reads it."""

REPLICAS = "replicas.npz"
"""Values of which each replica has its own: `tfdist.runtime.replica_values`."""

SUMMARY = "summary.json"
"""A `CheckpointSummary`."""

_BLOCK = 1 << 18
"""Bytes of a file that are read at a time, so that they are in the processor's cache for the checksum."""

MOST_MARKER_BYTES = 1 << 20

_OUT_OF_REACH = frozenset(
    {errno.EACCES, errno.EPERM, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ESTALE, errno.EMFILE, errno.ENFILE}
)
"""Errors of reading that tell nothing about the content."""

_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")
_SHARD_NAME = re.compile(r"weights\.worker-(\d+)-of-\d+")
_TEMPORARY = ".step-*.tmp"


StoredPath = Path | ObjectPath
"""A folder or a file of this machine, or a URL, which reads like one."""

FileComparison = Callable[[StoredPath, FileDigest], str | None]
"""Says what is wrong with a file that exists, for people; None for nothing."""


@dataclass(frozen=True, order=True)
class StoredCheckpoint:
    """A directory with the name of a checkpoint, whole or not. A later one is greater.

    Attributes:
        step: Steps of the run that were done.
        number: Its number among those of the same step, from 0.
        path: The directory.
    """

    step: int
    number: int
    path: StoredPath

    @property
    def is_marked(self) -> bool:
        """True if its writer finished it.

        Raises:
            RunDirError: That cannot be read.
            StoreError: Its store does not answer at the moment.
        """
        with error_when_out_of_reach(self.path):
            return (self.path / MARKER).exists()

    @property
    def generation(self) -> int:
        """That of the start that made it, see `GenerationClaim`, by its marker; 0 where that tells none.

        Raises:
            RunDirError: That cannot be read.
            StoreError: Its store does not answer at the moment.
        """
        try:
            with error_when_out_of_reach(self.path):
                number = _json_of(self.path / MARKER, MOST_MARKER_BYTES)["generation"]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return 0
        return number if type(number) is int and number > 0 else 0

    def fault(self) -> str | None:
        """Returns what is wrong with it, for people; None when every byte is as it was written. Reads all of it.

        Raises:
            RunDirError: It cannot be reached, so whether it is whole is unknown.
            StoreError: Its store does not answer at the moment.
        """
        return next(self.faults(other_bytes), None)

    def faults(self, look: FileComparison) -> Iterator[str]:
        """Yields what is wrong with the files that its marker names, one text each.

        Args:
            look: `other_bytes`, which reads every byte, or `wrong_size`, which is quick and misses changed bytes.

        Raises:
            RunDirError: It cannot be reached, so whether it is whole is unknown.
            StoreError: Its store does not answer at the moment.
        """
        with error_when_out_of_reach(self.path):
            yield from self._faults(look)

    def _faults(self, look: FileComparison) -> Iterator[str]:
        try:
            named = _named(_json_of(self.path / MARKER, MOST_MARKER_BYTES))
        except OSError as error:
            if error.errno in _OUT_OF_REACH:
                raise
            yield f"{MARKER} cannot be read: {error.strerror}"
            return
        except (ValueError, KeyError, TypeError, AttributeError):
            yield f"{MARKER} is damaged"
            return
        for name, digest in named.items():
            try:
                fault = look(self.path / name, digest)
            except OSError as error:
                if error.errno in _OUT_OF_REACH:
                    raise
                fault = f"{_shown(name)} cannot be read: {error.strerror}"
            if fault is not None:
                yield fault


def wrong_size(file: StoredPath, digest: FileDigest) -> str | None:
    """Returns what is wrong with a file's size."""
    size = regular_size(file) if isinstance(file, Path) else file.stat().st_size
    return None if size == digest.size else f"{_shown(file.name)} has {size:,} bytes instead of {digest.size:,}"


def other_bytes(file: StoredPath, digest: FileDigest) -> str | None:
    """Returns what is wrong with a file's size or bytes, all of which are read."""
    wrong = wrong_size(file, digest)
    if wrong is None and checksum(file, digest.size) != digest.checksum:
        return f"the checksum of {_shown(file.name)} is wrong"
    return wrong


def summary_of(checkpoint: StoredCheckpoint) -> dict[str, Any]:
    """Returns what the file of a checkpoint's `CheckpointSummary` holds.

    Raises:
        ValueError: It cannot be read, or is no JSON object.
        RunDirError: It cannot be reached, so whether it is whole is unknown.
        StoreError: Its store does not answer at the moment.
    """
    with error_when_out_of_reach(checkpoint.path):
        try:
            content = _json_of(checkpoint.path / SUMMARY, MOST_JSON_BYTES)
        except OSError as error:
            if error.errno in _OUT_OF_REACH:
                raise
            raise ValueError(f"{SUMMARY} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{SUMMARY} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{SUMMARY} is damaged: it holds no object")
    return content


def opened(file: StoredPath) -> BinaryIO:
    """Opens a file of a checkpoint for reading bytes; a local one must be a regular file, and no link.

    Raises:
        OSError: It cannot be opened, or is something else.
    """
    return open_regular(file) if isinstance(file, Path) else file.open("rb")


def stored(folder: StoredPath) -> list[StoredCheckpoint]:
    """The checkpoints in a folder, the latest first; whether they are whole is not checked.

    Args:
        folder: It need not exist.

    Raises:
        RunDirError: It cannot be read, which must not be taken for an empty folder in which a run may start anew.
        StoreError: Its store does not answer at the moment.
    """
    try:
        with error_when_out_of_reach(folder):
            names = [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    matches = [match for match in map(_NAME.fullmatch, names) if match]
    found = [StoredCheckpoint(int(match[1]), int(match[2] or 0), folder / match[0]) for match in matches]
    return sorted(found, reverse=True)


def temporary_folder_of(folder: Path, step: int) -> Path:
    """A new path among the checkpoints in a folder, under which one of `step` is made. Nothing is created."""
    return folder / f".step-{step:08d}.{secrets.token_hex(4)}.tmp"


@contextlib.contextmanager
def writing(
    folder: Path, step: int, generation: int = 0, begun: Path | None = None
) -> Iterator[PendingCheckpoint]:
    """Yields an empty checkpoint; at a clean exit it is the latest of `step`.

    Args:
        folder: Made if it does not exist. One process makes checkpoints in it.
        step: Steps of the run that are done.
        generation: Of the start that writes it, see `GenerationClaim`; 0 where none has claimed the folder.
        begun: The `temporary_folder_of` it where it has been made already; None makes one.

    Raises:
        RunDirError: The disk is full, or cannot be written. Nothing half-written is left.
    """
    temporary = made = begun or temporary_folder_of(folder, step)
    try:
        temporary.mkdir(parents=True, exist_ok=begun is not None)
        draft = PendingCheckpoint(lambda name, content: direct_io.write_uncached(temporary / name, content), generation)
        yield draft
        atomic_files.sync(temporary)
        target = folder / free_name(stored(folder), step)
        os.rename(temporary, target)
        made = target
        atomic_files.sync(folder)
        atomic_files.write_json(target / MARKER, draft.marker())
    except BaseException as error:
        # All of it, under either name: on a full disk the next checkpoint needs the room.
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, OSError) or (isinstance(error, Exception) and atomic_files.is_full(error)):
            raise atomic_files.write_error(folder, error) from error
        raise


def remove(checkpoint: StoredCheckpoint) -> None:
    """Removes a checkpoint of this machine, its marker first, so that what is left of it is not taken for whole."""
    assert isinstance(checkpoint.path, Path)
    with contextlib.suppress(OSError):  # what cannot be removed now is tried again with the next one
        (checkpoint.path / MARKER).unlink(missing_ok=True)
        shutil.rmtree(checkpoint.path)


def remove_unfinished(folder: Path) -> None:
    """Removes what a writer that was killed left."""
    for temporary in folder.glob(_TEMPORARY):
        shutil.rmtree(temporary, ignore_errors=True)
    for checkpoint in stored(folder):
        if not checkpoint.is_marked:
            remove(checkpoint)


def free_name(entries: Sequence[StoredCheckpoint], step: int, least: int = 0) -> str:
    """The name of the next checkpoint of `step`, next to those that exist.

    Args:
        entries: Those that exist.
        step: Steps of the run that are done.
        least: The least number among those of the same step.
    """
    number = max([least, *(entry.number + 1 for entry in entries if entry.step == step)])
    return f"step-{step:08d}" + (f".{number}" if number else "")


def checksum(file: StoredPath, size: int) -> int:
    """The CRC-32 of the first `size` bytes of a file, and of one more, where there is one."""
    found, left = 0, size + 1
    with opened(file) as content:
        while block := content.read(min(left, _BLOCK)):
            found = zlib.crc32(block, found)
            left -= len(block)
    return found


def _json_of(file: StoredPath, most_bytes: int) -> Any:
    with opened(file) as content:
        return bounded_json.parse(content.read(most_bytes + 1), most_bytes)


def _named(marker: Any) -> dict[str, FileDigest]:
    """The files that a marker names. Raises an exception of Python's where it is none that tfdist writes."""
    digests = {name: FileDigest(entry["bytes"], entry["crc32"]) for name, entry in marker["files"].items()}
    numbers = [number for digest in digests.values() for number in (digest.size, digest.checksum)]
    if not all(isinstance(number, int) and 0 <= number < 1 << 63 for number in numbers):
        raise ValueError("sizes and checksums are no integers")
    if not all(map(is_bare_name, digests)):
        raise ValueError("a name is that of no file beside it")
    return digests


@contextlib.contextmanager
def error_when_out_of_reach(place: StoredPath) -> Iterator[None]:
    """Says of the checkpoints in a place why they cannot be read.

    Raises:
        RunDirError: They are refused, or there is no such place.
        StoreError: Their store does not answer at the moment.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except NoAnswerError as error:
        raise StoreError(
            f"The checkpoints in {place} cannot be read, as the store does not answer: {error.strerror or error}. "
            "Expected a bucket that answers. Start it again then; if it never has answered, check the address and the "
            "network."
        ) from error
    except OSError as error:
        raise RunDirError(
            f"The checkpoints in {place} are out of reach: {error.strerror or error}. Expected a directory, or a "
            "bucket, that answers and that this user may read. Check checkpoint.directory, its permissions, the "
            "network and the credentials."
        ) from error


def _shown(name: str) -> str:
    """The name of a file for people, with the worker that wrote it where it is one's shard."""
    match = _SHARD_NAME.fullmatch(name)
    return name if match is None else f"{name}, the part of worker {match[1]},"


Opener = Callable[[int | None], BinaryIO]
