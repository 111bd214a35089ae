"""Copy store: the copy of a run directory under a URL, with its refusals; which files are copied when, in order."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tfdist import bounded_json
from tfdist.errors import RunDirError, StoreError
from tfdist.rundir.atomic_files import write_json
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import is_bare_name, open_regular, read_json
from tfdist.rundir.run_dir_creation import Resume
from tfdist.storage.object_store import FileContent, LocalFileError, NoAnswerError, ObjectStore

RUN_FILE = "state/run.json"
"""Marks a run directory, and its copy."""

COPY_FILE = "state/copy.json"
"""Of the copy alone: by which start of the run it was made. On this host: by which it was when this host wrote it."""

BYTES_PER_SECOND = 1 << 20
"""A file that grows is copied again at most so often that it takes this much, as each time all of it is sent."""

_MARKER = "checkpoint.json"
_LEFT_OUT = re.compile(r"state/copy\.json|checkpoints/generations/.*|(?:.*/)?\.[^/]*(?:/.*)?")
"""Names that are left out: what each side has for itself, claims of elastic jobs, and files that are being written."""

_AT_THE_END = re.compile(r"state/worker-[^/]*\.json")
"""States of workers change every second."""
_BLOCK_BYTES = 8 << 20
_MOST_RECORD_BYTES = 1 << 16
_READINGS = 3
"""The number of times that a file is read that becomes smaller while it is read."""


@dataclass(frozen=True)
class LocalFile:
    """A file of a run directory.

    Attributes:
        name: Its path below the directory, with slashes.
        size: Its bytes.
        changed_ns: When it was last written, in ns since 1970.
    """

    name: str
    size: int
    changed_ns: int


@dataclass(frozen=True)
class Copied:
    """A file as it was copied.

    Attributes:
        file: The file.
        at: When, by the monotonic clock.
    """

    file: LocalFile
    at: float


def is_copied(name: str) -> bool:
    """Returns whether a file of a run directory belongs to its copy, by its path below the directory."""
    return _LEFT_OUT.fullmatch(name) is None


def local_files(folder: Path) -> list[LocalFile]:
    """The files of a run directory that belong to its copy; links are left out, and what is gone meanwhile.

    Raises:
        OSError: The directory cannot be read.
    """
    return [file for file in _files_below(folder, "") if is_copied(file.name)]


def _files_below(folder: Path, prefix: str) -> Iterator[LocalFile]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in found:
        name = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(folder / entry.name, f"{name}/")
        elif entry.is_file(follow_symlinks=False):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield LocalFile(name, status.st_size, status.st_mtime_ns)


def due_files(
    files: Iterable[LocalFile], copied: Mapping[str, Copied], now: float, *, is_last: bool = False
) -> list[LocalFile]:
    """The files to copy, in their order: first what marks the run, and last what marks checkpoints as whole.

    Args:
        copied: Name -> how it was copied.
        now: The time, by the monotonic clock.
        is_last: Whether no other chance comes.
    """

    def is_due(file: LocalFile) -> bool:
        if _AT_THE_END.fullmatch(file.name) and not is_last:
            return False
        before = copied.get(file.name)
        if before is None or before.file == file:
            return before is None
        return is_last or now - before.at >= file.size / BYTES_PER_SECOND

    return sorted(filter(is_due, files), key=lambda file: (_place(file.name), file.name))


def dropped_names(files: Collection[LocalFile], there: Collection[str]) -> list[str]:
    """Returns what the copy has and the run directory has no longer, marks of checkpoints first."""
    dropped = {name for name in there if is_copied(name)} - {file.name for file in files}
    return sorted(dropped, key=lambda name: (not _is_marker(name), name))


def marks_any_of(name: str, others: Collection[str]) -> bool:
    """Returns whether a file marks a checkpoint as whole that has one of some others."""
    folder, _, _ = name.rpartition("/")
    return _is_marker(name) and any(other.startswith(f"{folder}/") for other in others)


def _place(name: str) -> int:
    return 0 if name == RUN_FILE else 2 if _is_marker(name) else 1


def _is_marker(name: str) -> bool:
    return name.rpartition("/")[2] == _MARKER


class CopyStore:
    """The copy of a run directory."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self.url = url.rstrip("/")

    def names(self) -> set[str]:
        """Returns what it has, by the paths below it.

        Raises:
            OSError: It cannot be listed.
        """
        found = self._store.matching(f"{self.url}/**")
        return {name[len(self.url) + 1 :] for name in found}

    def write(self, folder: Path, name: str) -> None:
        """Copies a file of the run directory, as it is now.

        Raises:
            FileNotFoundError: It is gone.
            LocalFileError: It cannot be read, or became smaller each time it was.
            OSError: It cannot be copied.
        """
        for is_last in (*[False] * (_READINGS - 1), True):
            with _opened(folder / name) as file:
                try:
                    self._store.write(f"{self.url}/{name}", FileContent(file))
                    return
                except LocalFileError:
                    if is_last:
                        raise

    def remove(self, name: str) -> None:
        """Removes a file from the copy.

        Raises:
            OSError: It cannot be removed.
        """
        self._store.remove(f"{self.url}/{name}")

    def begin(self, run: RunDir, resume: Resume, *, overwrite: bool) -> int:
        """Makes sure that a start of the run may write the copy, and reads it where this host has no such run.

        Returns:
            How many files were read.

        Raises:
            RunDirError: The copy is another run's, or another host's start has gone on with it; or it is refused.
            StoreError: The store does not answer at the moment.
        """
        with self._reaching():
            job = self.job()
            if job is not None and resume == "never" and not overwrite:
                raise RunDirError(
                    f"{self.url} has the copy of an earlier run. Expected a place without one. Choose another "
                    "--copy-to, resume that run (--resume auto), or replace it with --overwrite."
                )
            fetched = 0
            if job is not None and resume != "never":
                if run.run_file.exists():
                    self._check_start(run, job)
                elif not _has_entries(run.path):
                    fetched = self._read_into(run)
            # Whoever may not write is told so now, and not in an hour.
            trial = {"host": socket.gethostname(), "time": time.time()}
            self._store.write(f"{self.url}/{COPY_FILE}", json.dumps(trial).encode())
        return fetched

    def note_job(self, run: RunDir) -> None:
        """Notes on this host which start of the run the copy is of, now that it has its mark.

        Raises:
            RunDirError: It cannot be written.
        """
        write_json(run.copy_file, {"job": job_of(run.run_file)})

    def _check_start(self, run: RunDir, job: str) -> None:
        """Raises `RunDirError` where the copy is of a start that this host knows nothing of."""
        if job not in (job_of(run.run_file), job_of(run.copy_file)):
            raise RunDirError(
                f"{self.url} has the copy of a later start of this run than {run}, on another host. Expected the "
                f"latest. Move {run} away to go on with the copy; or give another --copy-to to go on with what is here."
            )

    def job(self) -> str | None:
        """The start that the copy is of; None where there is no copy.

        Raises:
            OSError: It cannot be read.
        """
        try:
            with self._store.open(f"{self.url}/{RUN_FILE}") as file:
                record = bounded_json.parse(file.read(_MOST_RECORD_BYTES + 1), _MOST_RECORD_BYTES)
        except FileNotFoundError:
            return None
        except ValueError:
            record = None
        return str(record.get("job")) if isinstance(record, dict) else ""

    def _read_into(self, run: RunDir) -> int:
        """Reads all of it into a directory that is not there, or empty: all or nothing."""
        folder = run.path.with_name(f".{run.path.name}.{secrets.token_hex(4)}.copied")
        found = sorted(self.names())
        stray = next((name for name in found if not all(map(is_bare_name, name.split("/")))), None)
        if stray is not None:
            raise RunDirError(
                f"{self.url} has an object that is no file of a run. Expected a copy that tfdist has made. Received: "
                f"{stray!r}. Remove it, or give another --copy-to."
            )
        names = list(filter(is_copied, found))
        try:
            for name in names:
                self._read(name, folder / name)
            os.rename(folder, run.path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return len(names)

    def _read(self, name: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with self._store.open(f"{self.url}/{name}") as source, file.open("xb") as target:
            while block := source.read(_BLOCK_BYTES):
                target.write(block)

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except NoAnswerError as error:
            said = error.strerror or error
            raise StoreError(f"--copy-to {self.url}: {said}. Start it again when it can be reached.") from error
        except OSError as error:
            raise RunDirError(f"--copy-to {self.url} cannot be used: {error.strerror or error}.") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LocalFileError(error.errno, f"it cannot be read: {error.strerror}") from error


def _has_entries(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except FileNotFoundError:
        return False


def job_of(file: Path) -> str | None:
    """The start that a file of a run directory names; None where there is no such file, or it names none."""
    try:
        record: Any = read_json(file, _MOST_RECORD_BYTES)
    except (OSError, ValueError):
        return None
    job = record.get("job") if isinstance(record, dict) else None
    return None if job is None else str(job)
