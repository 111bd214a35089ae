"""Ends of processes: workers by SIGTERM, then SIGKILL, within bounded times, and orphans, which workers leave behind.

A worker's process group ends with it. What has left the group, as a daemon does, and a service that a script starts in
a session of its own, is nobody's child once the worker is gone: without a parent that asks for them, they stay. So the
launcher becomes their parent, and ends them with the attempt.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

from tfdist.launch.signals import Signals
from tfdist.launch.worker.worker_process import Worker

TERM_SECONDS = 1.0
"""Between SIGTERM, which TensorFlow mostly swallows, and SIGKILL."""

KILL_SECONDS = 1.5
"""Seconds that the kernel may take to end processes that got a SIGKILL."""

LEAVE_SECONDS = 60.0
"""Seconds that a released worker may take to leave."""

SETTLE_SECONDS = 6.0
"""Seconds that the leading launcher waits for the others' failures; they wait twice as long for its answer."""

Pause = Callable[[], None]
Clock = Callable[[], float]
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.02
_ENDED = "ZX"
"""The states of processes that have ended and wait to be reaped."""


def wait_until_left(workers: Collection[Worker], signals: Signals, clock: Clock, pause: Pause) -> None:
    """Waits until released workers have left, for LEAVE_SECONDS or until a signal, and ends those that have not."""
    deadline = clock() + LEAVE_SECONDS
    before = len(signals.received)
    while _any_lives(workers) and len(signals.received) == before and clock() < deadline:
        pause()
    end_all(workers, signals, clock, pause)


def end_all(workers: Collection[Worker], signals: Signals, clock: Clock, pause: Pause) -> None:
    """Ends the workers: with SIGTERM, and with SIGKILL after TERM_SECONDS or at the next signal to the launcher."""
    if not _any_lives(workers):
        return
    before = len(signals.received)
    for worker in workers:
        worker.terminate()
    deadline = clock() + TERM_SECONDS
    while _any_lives(workers) and clock() < deadline and len(signals.received) == before < 2:
        pause()
    kill_all(workers, clock, pause)


def kill_all(workers: Collection[Worker], clock: Clock, pause: Pause) -> None:
    """Ends the workers with SIGKILL, which they cannot refuse."""
    for worker in workers:
        worker.kill()
    deadline = clock() + KILL_SECONDS
    while _any_lives(workers) and clock() < deadline:
        pause()


def _any_lives(workers: Collection[Worker]) -> bool:
    return any(worker.poll() is None for worker in workers)


class Orphans:
    """The processes that become this process's children while it runs workers.

    Made before there are workers: children that are there already are somebody else's.
    """

    def __init__(self) -> None:
        adopt_orphans()
        self._known = frozenset(_children_of(os.getpid(), that_run=False))

    def reap(self, own: Collection[int]) -> None:
        """Takes note of orphans that have ended, so that they do not fill the table of processes.

        Args:
            own: The processes that this one has started, and waits for itself.
        """
        reap({*self._known, *own})

    def end(self, own: Collection[int]) -> None:
        """Kills them, and what they have started, within a bounded time. No worker is left by then; see `reap`."""
        end_children(but=self._known, own=own)


def adopt_orphans() -> None:
    """Makes this process the parent of all that lose theirs among its descendants, so that none of them gets away."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(own: Collection[int]) -> None:
    """Reaps children that have ended, until one has of those that somebody waits for."""
    # Errors: there is no child at all, or another thread was quicker.
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in own:
            os.waitpid(ended.si_pid, os.WNOHANG)


def end_children(*, but: Collection[int] = (), own: Collection[int] = ()) -> None:
    """Kills the children of this process, and those that they leave to it, within a bounded time.

    Args:
        own: Children that somebody waits for.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    waited_for = {*but, *own}
    while found := [pid for pid in _children_of(os.getpid()) if pid not in but]:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            # The kernel does not let one end that waits for a disk.
            break
        time.sleep(_POLL_SECONDS)
    reap(waited_for)


def descendants(root: int) -> list[int]:
    """The processes below one, those that have ended and wait to be reaped left out."""
    found: list[int] = []
    level = [root]
    processes = _processes()
    while level:
        level = [pid for pid, (parent, runs) in processes.items() if runs and parent in level]
        found += level
    return found


def _children_of(root: int, *, that_run: bool = True) -> list[int]:
    return [pid for pid, (parent, runs) in _processes().items() if parent == root and (runs or not that_run)]


def _processes() -> dict[int, tuple[int, bool]]:
    """All processes, with their parents and whether they have not ended."""
    found: dict[int, tuple[int, bool]] = {}
    for process in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name is in brackets and may contain any character.
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            found[int(process.name)] = (int(fields[1]), fields[0] not in _ENDED)
    return found
