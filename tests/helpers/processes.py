"""Which processes run, by what they were given."""

from __future__ import annotations

import contextlib
from pathlib import Path


def processes_with(variable: str) -> list[int]:
    """The ids of the processes that have this in their environment, `NAME=value`, as children inherit it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # Processes of others cannot be read, and some are gone meanwhile.
        with contextlib.suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def command_line(pid: int) -> list[str]:
    """The words that a process was started with; none where it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with; none where it is gone."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)
