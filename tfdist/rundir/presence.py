"""Whether the process that wrote a record is still there; known on its own machine alone."""

from __future__ import annotations

import enum
import os
import socket
from pathlib import Path

_PROC = Path("/proc")
_CLOCK_SECONDS = 5.0
"""By how much the kernel's and the user's idea of a process's start may differ."""


class Presence(enum.StrEnum):
    """What is known of a process."""

    ALIVE = "alive"
    STOPPED = "stopped"
    """By SIGSTOP or Ctrl-Z: it is there and does nothing."""
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    """On another machine, where this one cannot look."""


def presence(host: str, pid: int, seen: float) -> Presence:
    """Looks for a process.

    Args:
        host: The machine that it ran on, by its own name.
        pid: Its process id there.
        seen: When it was surely there, in seconds since 1970. What started later under its number is another process.
    """
    if host != socket.gethostname():
        return Presence.ELSEWHERE
    try:
        state, started = _look(pid)
    except (FileNotFoundError, ProcessLookupError):
        return Presence.ALIVE if _is_hidden(pid) else Presence.GONE
    except (OSError, ValueError, IndexError):
        return Presence.ELSEWHERE  # a system that does not tell
    if state in "ZX" or started > seen + _CLOCK_SECONDS:
        return Presence.GONE
    return Presence.STOPPED if state in "Tt" else Presence.ALIVE


def _look(pid: int) -> tuple[str, float]:
    """The state letter of a process, and when it started, in seconds since 1970."""
    # The name is in brackets and may hold any character.
    fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    lines = (_PROC / "stat").read_text().splitlines()
    boot = next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    return fields[0], boot + float(fields[19]) / os.sysconf("SC_CLK_TCK")


def _is_hidden(pid: int) -> bool:
    """Whether it is another user's, of which this system shows nothing."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    return True
