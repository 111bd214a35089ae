"""Presence of a process: whether the one that wrote a record still runs, as far as this machine can tell."""

from __future__ import annotations

import enum
import os
import socket
from pathlib import Path

_PROC = Path("/proc")
_ENDED = "ZX"  # ended, and not yet reaped by its parent
_CLOCK_SECONDS = 5.0
"""Seconds that a process may have started after its record, by clocks that differ."""


class Presence(enum.StrEnum):
    """The presence of a process, as far as it is known."""

    ALIVE = "alive"
    STOPPED = "stopped"
    """By SIGSTOP or Ctrl-Z."""
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    """On another machine, so that nothing is known."""


def presence(host: str, pid: int, seen: float, started: int | None = None) -> Presence:
    """Looks for a process.

    Args:
        host: The machine that it ran on, by its own name.
        seen: When it certainly ran, in seconds since 1970. One that started later with its id is another process.
        started: Its `start_ticks`, by which it is known even after the machine's clock was set; None where unknown.
    """
    if host != socket.gethostname():
        return Presence.ELSEWHERE
    try:
        state, ticks = _look(pid)
        is_another = _started_after(ticks, seen) if started is None else ticks != started
    except (FileNotFoundError, ProcessLookupError):
        return Presence.ALIVE if _is_hidden(pid) else Presence.GONE
    except (OSError, ValueError, IndexError):
        return Presence.ELSEWHERE  # a system without /proc
    if state in _ENDED or is_another:
        return Presence.GONE
    return Presence.STOPPED if state in "Tt" else Presence.ALIVE


def start_ticks(pid: int) -> int | None:
    """Returns when a process of this machine started, in clock ticks of the kernel; None without /proc.

    Together with its id it identifies the process as long as the machine runs, independent of clocks that people set.
    """
    try:
        return _look(pid)[1]
    except (OSError, ValueError, IndexError):
        return None


def is_gone(pid: int, start: int) -> bool:
    """Returns whether a process of this machine that started at `start`, by `start_ticks`, has certainly ended."""
    try:
        state, ticks = _look(pid)
    except (FileNotFoundError, ProcessLookupError):
        return not _is_hidden(pid)
    except (OSError, ValueError, IndexError):
        return False
    return state in _ENDED or ticks != start


def _look(pid: int) -> tuple[str, int]:
    """The state letter of a process, and when it started, in clock ticks since the machine did."""
    # The name is in brackets and may contain any character.
    fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _started_after(ticks: int, seen: float) -> bool:
    """Returns whether a process that started `ticks` after the machine did was not there yet at `seen`."""
    lines = (_PROC / "stat").read_text().splitlines()
    boot = next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    return boot + ticks / os.sysconf("SC_CLK_TCK") > seen + _CLOCK_SECONDS


def _is_hidden(pid: int) -> bool:
    """Returns whether it is another user's, whose processes this system hides."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    return True
