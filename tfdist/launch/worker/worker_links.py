"""Links between the workers of a job on this host: made before these start, for one attempt."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tfdist.launch.environment import Assignment
from tfdist.net.host_links import MOST_WORKERS, HostLinks

SETS = 2
"""Sets of links: for what comes in the order of the steps, and for calls of a script that run beside them."""


@contextlib.contextmanager
def linked(assignments: Sequence[Assignment], warn: Callable[[str], object]) -> Iterator[list[Assignment]]:
    """Gives each worker its ends of the links to the others, which are open here until the context ends.

    Args:
        assignments: Of all workers that this launcher starts.
        warn: Told where the system refuses the links: the workers then go without.

    Yields:
        The assignments with the ends, or as they are where links serve nothing.
    """
    with contextlib.ExitStack() as stack:
        links: list[HostLinks] = []
        if _serve(assignments):
            try:
                links = [stack.enter_context(HostLinks(len(assignments))) for _ in range(SETS)]
            except OSError as error:
                warn(
                    "The workers sum over the network instead of in shared memory, for which the system gives no "
                    f"memory or no descriptors: {error}. A higher limit of open files (ulimit -n) or more memory "
                    "mends it."
                )
        yield [
            replace(assignment, link_rank=rank, links=tuple(each.ends_of(rank).descriptors for each in links))
            for rank, assignment in enumerate(assignments)
        ]


def _serve(assignments: Sequence[Assignment]) -> bool:
    return assignments[0].communication in ("auto", "shm") and 2 <= len(assignments) <= MOST_WORKERS
