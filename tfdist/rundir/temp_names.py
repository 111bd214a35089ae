"""Names of temporary files, and the removal of those that killed writers have left behind.

A name identifies its writer: `.STEM.HOST.PID-START-RANDOM.tmp` and the suffix. So the next writer can tell files of a
process that was killed from those that another one is writing now. A `temporary_folder` is for what lies elsewhere: its
name is `tfdist-PURPOSE.HOST.PID-START-RANDOM`, in the system's folder for temporary files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfdist.rundir.process_presence import is_gone, start_ticks

TEMPORARY_GLOB = ".*.tmp*"
"""Matches every such name, and possibly others."""

_PROCESS = r"\.(?P<host>[0-9a-f]{8})\.(?P<pid>\d+)-(?P<start>\d+)-[0-9a-f]{8}"
_SIGNATURE = rf"{_PROCESS}\.tmp"
_FOLDER = rf"tfdist-[^.]+{_PROCESS}"
_KEPT = ".kept"
"""A file in a temporary folder that nobody removes."""
_NAME = re.compile(rf"\..+{_SIGNATURE}(?:\.[^.]+)?")


def temp_path(path: Path) -> Path:
    """A new path beside `path` with its suffix, by which Keras chooses a format. Nothing is created."""
    return path.with_name(f".{path.stem}.{_process()}.tmp{path.suffix}")


def remove_abandoned(path: Path) -> None:
    """Removes temporary files and directories of `path` whose writers were killed.

    Those of running processes stay, as do those of other machines, whose processes are unknown here. What cannot be
    removed is left for the next time.
    """
    _remove_abandoned(path.parent, rf"\.{re.escape(path.stem)}{_SIGNATURE}{re.escape(path.suffix)}")


def remove_all_abandoned(directory: Path, suffix: str) -> None:
    """`remove_abandoned` for all files with a suffix in a directory, which is listed once."""
    _remove_abandoned(directory, rf"\..+{_SIGNATURE}{re.escape(suffix)}")


@contextlib.contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Yields an empty folder, readable for this user alone, that is removed when the block ends, unless it is kept.

    What killed processes of this machine left is removed by the next one, whatever it was for.

    Args:
        purpose: What it is for, in a word or two: it is part of the name.

    Raises:
        OSError: It cannot be made.
    """
    # Imported here: they take milliseconds, which a launcher that is only asked for its help need not spend.
    import shutil
    import tempfile

    place = Path(tempfile.gettempdir())
    _remove_abandoned(place, _FOLDER)
    folder = place / f"tfdist-{purpose}.{_process()}"
    os.mkdir(folder, 0o700)
    try:
        yield folder
    finally:
        if not (folder / _KEPT).exists():
            shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path) -> None:
    """Has a temporary folder stay for good, also if the process is killed later.

    Raises:
        OSError: It is gone, or full.
    """
    (folder / _KEPT).touch()


def _remove_abandoned(directory: Path, pattern: str) -> None:
    name = re.compile(pattern)
    entries: list[Path] = []
    with contextlib.suppress(OSError):
        entries += directory.iterdir()
    for entry in entries:
        match = name.fullmatch(entry.name)
        if match and match["host"] == _host() and is_gone(int(match["pid"]), int(match["start"])):
            with contextlib.suppress(OSError):  # another user's, for example: the others are still removed
                if not (entry / _KEPT).exists():
                    _remove(entry)


def remove_all(directories: Iterable[Path]) -> None:
    """Removes all temporary files in some directories, in which nobody writes at the moment.

    Raises:
        OSError: Something cannot be removed.
    """
    for directory in directories:
        for entry in directory.glob(TEMPORARY_GLOB):
            if _NAME.fullmatch(entry.name):
                _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        # Imported here: it takes milliseconds, which reading a run directory need not spend.
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _process() -> str:
    """Returns what makes a name new, and tells whose it is."""
    return f"{_host()}.{os.getpid()}-{start_ticks(os.getpid()) or 0}-{secrets.token_hex(4)}"


def _host() -> str:
    """Returns where a process id is valid, in 8 characters: the machine and the container on it."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return hashlib.blake2s(f"{socket.gethostname()} {namespace}".encode(), digest_size=4).hexdigest()
