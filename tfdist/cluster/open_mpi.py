"""Open MPI: the cluster from the variables that mpirun sets for each rank.

They have no list of hosts, so this works only when all ranks run on one machine. Each rank runs its own
`tfdist train` and starts its own worker.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.cluster.membership import Membership
from tfdist.cluster.ports import END_PORT, FIRST_PORT
from tfdist.errors import ClusterError

# Variables that are the same for all ranks of one mpirun; each version of Open MPI has one of them.
_JOB_NAMES = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")
_REMEDY = "Give the list with --workers, and --index $OMPI_COMM_WORLD_RANK."


def is_open_mpi_rank(environ: Mapping[str, str]) -> bool:
    """Whether mpirun started this process."""
    return "OMPI_COMM_WORLD_RANK" in environ


def open_mpi_membership(environ: Mapping[str, str]) -> Membership | None:
    """This rank's membership; None outside mpirun, or when it started one rank.

    Raises:
        ClusterError: The ranks run on several machines, or the variables contradict one another.
    """
    if not is_open_mpi_rank(environ):
        return None
    rank, size = _number(environ, "OMPI_COMM_WORLD_RANK"), _number(environ, "OMPI_COMM_WORLD_SIZE")
    if size == 1:
        return None
    here = _number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE")
    if here != size:
        raise ClusterError(
            f"Open MPI started {size} ranks, {here} of them on this machine, and does not say where the others are. "
            f"{_REMEDY}"
        )
    job = next((environ[name] for name in _JOB_NAMES if environ.get(name)), None)
    if job is None or size > END_PORT - FIRST_PORT or not rank < size:
        raise ClusterError(f"Open MPI's variables do not name a job of {size} ranks with rank {rank}. {_REMEDY}")
    # Every rank must choose the same ports without asking the others.
    base = FIRST_PORT + zlib.crc32(job.encode("utf-8", "surrogatepass")) % (END_PORT - FIRST_PORT - size + 1)
    cluster = Cluster(tuple(Address("127.0.0.1", base + other) for other in range(size)))
    return Membership(cluster, (rank,), tuple(range(size)), source="Open MPI")


def _number(environ: Mapping[str, str], name: str) -> int:
    number = whole_number(environ.get(name, ""))
    if number is None:
        raise ClusterError(f"Open MPI's {name} must be a number. Received: {environ.get(name, '')[:200]!r}. {_REMEDY}")
    return number
