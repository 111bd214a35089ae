"""Ends a process with all that it has started, in whatever groups and sessions."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from pathlib import Path

_LEAVE_SECONDS = 10.0


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills what is left of a process that leads a group of its own, and returns when all of it is gone.

    Launchers give their workers groups of their own, so its descendants are looked up.

    Args:
        process: A child that nobody has waited for.
    """
    workers = _descendants(process.pid)
    with contextlib.ExitStack() as open_files:
        held = set()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                held.add(descriptor_of(pid, open_files))
        # Before it is reaped: until then no other group can get its number.
        for kill, number in [(os.killpg, process.pid), *((os.kill, pid) for pid in workers)]:
            with contextlib.suppress(ProcessLookupError):
                kill(number, signal.SIGKILL)
        process.wait()
        _wait_until_gone(held)


def descriptor_of(pid: int, open_files: contextlib.ExitStack) -> int:
    """A descriptor that can be read from when the process has ended.

    Raises:
        ProcessLookupError: There is no such process.
    """
    descriptor = os.pidfd_open(pid)
    open_files.callback(os.close, descriptor)
    return descriptor


def _wait_until_gone(held: set[int]) -> None:
    """A process that is killed still has its memory to give back, which would slow the next contestant down."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    while held and (left := deadline - time.monotonic()) > 0:
        held -= set(select.select(held, (), (), left)[0])


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, that these have started, and so on."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found
