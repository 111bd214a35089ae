"""Open MPI: the cluster from the variables that mpirun sets for each rank.

They have no list of hosts, so this works only when all ranks run on one machine. Each rank runs its own
`tfdist train` and starts its own worker.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.cluster.membership import Membership
from tfdist.cluster.mpi.mpi_ranks import number_of, ranks_of_one_machine

# Variables that are the same for all ranks of one mpirun; each version of Open MPI has one of them.
_JOB_NAMES = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")
_REMEDY = "Give the list with --workers, and --index $OMPI_COMM_WORLD_RANK."
_SOURCE = "Open MPI"


def is_open_mpi_rank(environ: Mapping[str, str]) -> bool:
    """Returns whether mpirun started this process."""
    return "OMPI_COMM_WORLD_RANK" in environ


def open_mpi_membership(environ: Mapping[str, str]) -> Membership | None:
    """This rank's membership; None outside mpirun, or when it started one rank.

    Raises:
        ClusterError: The ranks run on several machines, or the variables contradict one another.
    """
    if not is_open_mpi_rank(environ):
        return None
    names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    rank, size = (number_of(environ, name, _SOURCE, _REMEDY) for name in names)
    if size == 1:
        return None
    here = number_of(environ, "OMPI_COMM_WORLD_LOCAL_SIZE", _SOURCE, _REMEDY)
    job = next((environ[name] for name in _JOB_NAMES if environ.get(name)), None)
    return ranks_of_one_machine(rank, size, here, job, _SOURCE, _REMEDY)
