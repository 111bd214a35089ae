"""The runs of a folder, each under a name that leads nowhere else: no path comes from a request."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tfdist.errors import RunDirError, UsageError
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.json_record import is_finite
from tfdist.rundir.layout import RunDir
from tfdist.rundir.regular_files import read_json
from tfdist.rundir.run_snapshot import runs_below

MOST_RUNS = 5000
"""The newest of a folder; older ones are not shown."""
_MOST_RUN_FILE_BYTES = 1 << 16
_DISK_SECONDS = 5.0
_MOST_REMEMBERED = 4 * MOST_RUNS

_T = TypeVar("_T")


class UnknownRunError(Exception):
    """No run of the folder has this name."""


class BoardFolder:
    """A folder with runs, or one run directory.

    Args:
        path: The folder; a link is followed, here and nowhere below.

    Raises:
        UsageError: It is no directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self._disks: dict[str, BoundedDisk] = {}
        self._remembered: dict[tuple[Path, object], tuple[tuple[int, ...], Any]] = {}
        if not self.path.is_dir():
            found = "a file" if self.path.exists() else "nothing of that name"
            raise UsageError(
                f"{os.fspath(path)} is no folder. Expected one in which runs are, such as ./runs, or a run directory. "
                f"Received: {found}. `tfdist train` makes ./runs with its first run."
            )

    def runs(self) -> list[Path]:
        """The run directories, the newest first, as `tfdist status` finds them."""
        if RunDir(self.path).run_file.exists():
            return [self.path]
        newest = runs_below(self.path)[: -MOST_RUNS - 1 : -1]
        return sorted(newest, key=lambda run: self.remembered(RunDir(run).run_file, _created), reverse=True)

    def find(self, key: str) -> Path:
        """The run directory of a `key_of`.

        Raises:
            UnknownRunError: There is none, or no longer.
            RunDirError: It leads out of the folder.
        """
        for run in self.runs():
            if key_of(run) == key:
                self.check(run)
                return run
        raise UnknownRunError(key)

    def check(self, run: Path) -> None:
        """Raises `RunDirError` where a link leads out of the folder: a copied folder may hold any."""
        files = RunDir(run)
        for part in (files.path, files.state_dir, files.logs_dir):
            if not part.resolve().is_relative_to(self.path):
                raise RunDirError(
                    f"{part.relative_to(self.path.parent)} is a link that leads out of {self.path}, which the board "
                    "does not follow. Show the folder that it leads to."
                )

    def reading(self, name: str, read: Callable[[], _T]) -> _T:
        """Calls `read` within a bound of time; one at a time of each name, so that a slow run holds up itself alone.

        Raises:
            RunDirError: The disk does not answer, or there is more than can be read in time.
        """
        if name not in self._disks and len(self._disks) >= MOST_RUNS:
            self._disks.clear()
        return self._disks.setdefault(name, BoundedDisk(self.path, _DISK_SECONDS)).call(read)

    def remembered(self, file: Path, what: Callable[[Path], _T]) -> _T:
        """Returns what a function makes of a file, made again only when the file has changed: pages ask every few
        seconds."""
        try:
            found = file.lstat()
        except OSError:
            return what(file)
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        known = self._remembered.get((file, what))
        if known is not None and known[0] == stamp:
            return known[1]
        made = what(file)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[file, what] = stamp, made
        return made


def key_of(run: Path) -> str:
    """The name of a run in an address, made from that of its directory."""
    return hashlib.blake2s(os.fsencode(run.name), digest_size=8).hexdigest()


def _created(run_file: Path) -> float:
    try:
        record = read_json(run_file, _MOST_RUN_FILE_BYTES)
    except (OSError, ValueError):
        return 0.0
    created = record.get("created") if isinstance(record, dict) else None
    return float(created) if is_finite(created) else 0.0
