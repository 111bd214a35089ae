"""Ranks of one `mpirun` on one machine as a cluster: each chooses the same ports, without asking the others."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.cluster.membership import Membership
from tfdist.cluster.ports import END_PORT, FIRST_PORT
from tfdist.errors import ClusterError


def ranks_of_one_machine(rank: int, size: int, here: int, job: str | None, source: str, remedy: str) -> Membership:
    """The membership of one rank.

    Args:
        rank: Its number, from 0.
        size: How many ranks there are.
        here: How many of them run on this machine.
        job: What only the ranks of this job have in common; None where that is not known.
        source: What has started them, for messages.
        remedy: What to do otherwise.

    Raises:
        ClusterError: The ranks run on several machines, or the numbers contradict one another.
    """
    if here != size:
        raise ClusterError(
            f"{source} started {size} ranks, {here} of them on this machine, and does not say where the others are. "
            "Expected all on one machine. To train on many hosts: tfdist launch --on mpi --hosts h1,h2 ... "
            f"Or: {remedy}"
        )
    if not job or size > END_PORT - FIRST_PORT or not rank < size:
        raise ClusterError(f"{source}'s variables do not name a job of {size} ranks with rank {rank}. {remedy}")
    base = FIRST_PORT + zlib.crc32(job.encode("utf-8", "surrogatepass")) % (END_PORT - FIRST_PORT - size + 1)
    cluster = Cluster(tuple(Address("127.0.0.1", base + other) for other in range(size)))
    return Membership(cluster, (rank,), tuple(range(size)), source=source)


def number_of(environ: Mapping[str, str], name: str, source: str, remedy: str) -> int:
    """The number that a variable has.

    Raises:
        ClusterError: It is absent, or no number.
    """
    number = whole_number(environ.get(name, ""))
    if number is None:
        received = environ.get(name, "")[:200]
        raise ClusterError(f"{source}'s {name} must be a number. Received: {received!r}. {remedy}")
    return number
