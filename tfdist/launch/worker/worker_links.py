"""Links between the workers of a job on this host: made before these start, for one attempt."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tfdist.launch.environment import Assignment
from tfdist.net.host_links import LEAST_REGION_BYTES, MOST_WORKERS, REGION_BYTES, HostLinks, HostStar

SETS = (REGION_BYTES, REGION_BYTES, LEAST_REGION_BYTES)
"""Sets of links, by the memory of a worker: for what comes in the order of the steps; for calls of a script that run
beside them; and for workers to hand one another links between some of them, over the sockets alone."""

_SPARE_DESCRIPTORS = 8
_SPARE_DESCRIPTORS_OF_WORKER = 4
"""Descriptors that the launcher needs besides, to start a worker and to read what it writes."""


@contextlib.contextmanager
def linked(assignments: Sequence[Assignment], warn: Callable[[str], object]) -> Iterator[list[Assignment]]:
    """Gives each worker its ends of the links to the others, which are open here until the context ends.

    Args:
        assignments: Of all workers that this launcher starts.
        warn: Told where the system refuses the links: the workers then go without.

    Yields:
        The assignments with the ends, or as they are where links serve nothing.
    """
    indices = tuple(assignment.index for assignment in assignments) if _serve(assignments) else ()
    with contextlib.ExitStack() as stack:
        links: list[HostLinks] = []
        try:
            if indices:
                links = stack.enter_context(_made(indices))
        except OSError as error:
            warn(
                "Workers on the CPUs of this host sum over the network instead of in shared memory, for which the "
                f"system gives no memory or no descriptors: {error}. A higher limit of open files (ulimit -n) or more "
                "memory mends it."
            )
        # Last, as the workers do without these at less cost.
        star = stack.enter_context(_star_of([assignment.index for assignment in assignments]))
        yield [
            replace(
                assignment,
                linked=indices if links else (),
                links=tuple(each.ends_of(assignment.index).descriptors for each in links),
                host_workers=tuple(each.index for each in assignments) if star else (),
                feed_sockets=star.ends_of(assignment.index) if star else (),
            )
            for assignment in assignments
        ]


@contextlib.contextmanager
def _made(indices: Sequence[int]) -> Iterator[list[HostLinks]]:
    """The sets of links. Raises OSError where the system refuses them, or has too few descriptors left beside them."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(HostLinks(indices, size)) for size in SETS]
        _check_spare_descriptors(_SPARE_DESCRIPTORS + _SPARE_DESCRIPTORS_OF_WORKER * len(indices))
        yield links


@contextlib.contextmanager
def _star_of(indices: Sequence[int]) -> Iterator[HostStar | None]:
    """Sockets over which one worker of this host can hand the others the batches that it draws.

    None where nobody else is here, or where the system refuses them: each worker then draws its own, which is as exact,
    and logs that it does.
    """
    with contextlib.ExitStack() as stack:
        star = None
        if len(indices) > 1:
            try:
                made = stack.enter_context(HostStar(indices))
                _check_spare_descriptors(_SPARE_DESCRIPTORS + _SPARE_DESCRIPTORS_OF_WORKER * len(indices))
                star = made
            except OSError:
                stack.close()
        yield star


def _check_spare_descriptors(count: int) -> None:
    """Raises where fewer are left: workers are better started without links than not at all."""
    with contextlib.ExitStack() as taken:
        for _ in range(count):
            # Of no file, which the error would name.
            taken.callback(os.close, os.eventfd(0))


def _serve(assignments: Sequence[Assignment]) -> bool:
    """Returns whether the workers sum in shared memory, or in part; whether on GPUs is theirs to see."""
    first = assignments[0]
    if first.communication == "auto" and first.compression != "none" and len(assignments) == first.num_workers:
        return False  # what is compressed is sent, on one host, too
    return first.communication in ("auto", "shm") and 2 <= len(assignments) <= MOST_WORKERS
