"""Ends worker processes with SIGTERM, then SIGKILL, within bounded times."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tfdist.launch.signals import Signals
from tfdist.launch.worker.worker_handle import Worker

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
