"""Names for what is written beside its place before it is renamed into it, and what is left there of dead writers.

A name tells who writes: `.STEM.HOST.PID-START-RANDOM.tmp` and the suffix. So the next writer can tell what a process
that was killed has left behind from what another one is writing at this moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path

from tfdist.rundir.process_presence import is_gone, start_ticks

TEMPORARY_GLOB = ".*.tmp*"
"""Matches every such name, and maybe others."""

_SIGNATURE = r"\.(?P<host>[0-9a-f]{8})\.(?P<pid>\d+)-(?P<start>\d+)-[0-9a-f]{8}\.tmp"
_NAME = re.compile(rf"\..+{_SIGNATURE}(?:\.[^.]+)?")


def temp_path(path: Path) -> Path:
    """A new name beside `path` that keeps its suffix, by which Keras chooses a format; nothing is made there."""
    process = f"{os.getpid()}-{start_ticks(os.getpid()) or 0}"
    return path.with_name(f".{path.stem}.{_host()}.{process}-{secrets.token_hex(4)}.tmp{path.suffix}")


def remove_abandoned(path: Path) -> None:
    """Removes the files and directories that writers of `path` have left beside it when they were killed.

    What a process that lives is writing stays, and what was written on another machine, where nobody can look from
    here. What cannot be removed is left for the next time.
    """
    _remove_abandoned(path.parent, rf"\.{re.escape(path.stem)}{_SIGNATURE}{re.escape(path.suffix)}")


def remove_all_abandoned(directory: Path, suffix: str) -> None:
    """`remove_abandoned` for all files in a directory that have a suffix, which is listed once."""
    _remove_abandoned(directory, rf"\..+{_SIGNATURE}{re.escape(suffix)}")


def _remove_abandoned(directory: Path, pattern: str) -> None:
    name = re.compile(pattern)
    entries: list[Path] = []
    with contextlib.suppress(OSError):
        entries += directory.iterdir()
    for entry in entries:
        match = name.fullmatch(entry.name)
        if match and match["host"] == _host() and is_gone(int(match["pid"]), int(match["start"])):
            with contextlib.suppress(OSError):  # such as another user's, in a directory of all: the others still go
                _remove(entry)


def remove_all(directories: Iterable[Path]) -> None:
    """Removes all that writers have left in some directories, where it is known that nobody writes there.

    Raises:
        OSError: Something cannot be removed.
    """
    for directory in directories:
        for entry in directory.glob(TEMPORARY_GLOB):
            if _NAME.fullmatch(entry.name):
                _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        # Imported here: it takes milliseconds, and whoever only reads a run directory need not load it.
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _host() -> str:
    """Where a process's number means something, in few characters: the machine, and on it the container."""
    namespace = ""
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return hashlib.blake2s(f"{socket.gethostname()} {namespace}".encode(), digest_size=4).hexdigest()
