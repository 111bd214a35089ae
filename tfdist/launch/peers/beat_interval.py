"""Beat interval: how often the leader hears of a worker elsewhere that does what it has done before."""

from __future__ import annotations

_PER_SECOND = 50
"""States that the leader is told in a second, from all workers of the job: each costs it about 0.4 ms, as it is written
down, too."""

_LEAST_SECONDS = 1.0
_MOST_SECONDS = 20.0


def beat_seconds(num_workers: int) -> float:
    """Seconds between two states of a worker that are passed on to the leader; 0 for all that it reports.

    Changes, to another state, limit or attempt, are told at once whatever this is. A worker reports about once in a
    second.

    Args:
        num_workers: Workers of the job.
    """
    seconds = num_workers / _PER_SECOND
    return 0.0 if seconds <= _LEAST_SECONDS else min(seconds, _MOST_SECONDS)


def observe_seconds(num_workers: int) -> float:
    """Seconds between two looks at the states of all workers, which take a microsecond or two for each of them."""
    return min(num_workers / 1000, 1.0)


def straggler_seconds(num_workers: int) -> float:
    """Seconds between two looks for stragglers, which sort all workers; those are reported after fifty steps."""
    return min(num_workers / 100, 10.0) if num_workers >= 100 else 0.0


def gather_seconds(num_remote: int) -> float:
    """Seconds in which the leader leaves what others say unread, to take it in together; 0 in jobs of a few hosts.

    Whenever it wakes it looks at what all workers do, which takes longer the more they are.

    Args:
        num_remote: Workers that other launchers start.
    """
    return min(num_remote / 1000, 0.1) if num_remote >= 32 else 0.0
