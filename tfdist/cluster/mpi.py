"""Ranks of one `mpirun` on one machine as a cluster, from the variables that it sets for each.

Each runs `tfdist train`, and they choose the same ports without asking one another. Open MPI gives no list of hosts,
MPICH and Intel MPI neither that nor a name of the job: their ranks have one Hydra proxy among their ancestors. Ranks of
other managers that speak PMIx alone have no size, and are refused: each would train alone.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from tfdist.cluster.cluster_spec import Address, Cluster, whole_number
from tfdist.cluster.membership import Membership
from tfdist.cluster.ports import END_PORT, FIRST_PORT
from tfdist.errors import ClusterError

# Variables that are the same for all ranks of one mpirun; each version of Open MPI has one of them.
_JOB_NAMES = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri")
_REMEDY = "Give the list with --workers, and --index $OMPI_COMM_WORLD_RANK."
_SOURCE = "Open MPI"
_HYDRA_REMEDY = "Give the list with --workers, and --index $PMI_RANK."
_HYDRA_SOURCE = "MPI (Hydra)"
_PROXIES = ("hydra_pmi_proxy", "pmi_proxy")
_PROC = Path("/proc")
_MOST_ANCESTORS = 64


def ranks_of_one_machine(rank: int, size: int, here: int, job: str | None, source: str, remedy: str) -> Membership:
    """The membership of one rank.

    Args:
        rank: Its number, from 0.
        job: What only the ranks of this job have in common; None where that is not known.
        source: What has started them, for messages.

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


def is_hydra_rank(environ: Mapping[str, str]) -> bool:
    """Returns whether Hydra started this process. Tasks of `srun --mpi=pmi2` have PMI_RANK, too, and are Slurm's."""
    return "PMI_RANK" in environ and ("MPI_LOCALNRANKS" in environ or "SLURM_PROCID" not in environ)


def is_bare_pmix_rank(environ: Mapping[str, str]) -> bool:
    """Returns whether PMIx alone says that this process is a rank: neither Open MPI nor Slurm, which say more."""
    return "PMIX_RANK" in environ and not {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID"} & environ.keys()


def refuse_bare_pmix(environ: Mapping[str, str]) -> ClusterError:
    """Returns why such a rank cannot know its cluster."""
    return ClusterError(
        f"This process is rank {environ['PMIX_RANK'][:20]} of a PMIx job, and no variable says of how many. Expected "
        "Open MPI, MPICH, Intel MPI or Slurm. Give the list with --workers, and --index $PMIX_RANK; or --nproc 1, to "
        "train in each rank for itself."
    )


def hydra_membership(environ: Mapping[str, str], job: Callable[[], str | None] | None = None) -> Membership | None:
    """This rank's membership; None outside of Hydra, or when it started one rank.

    Args:
        job: Returns what only the ranks of this job have in common; None asks the system.

    Raises:
        ClusterError: The ranks run on several machines, or the variables contradict one another.
    """
    if not is_hydra_rank(environ):
        return None
    rank, size = (number_of(environ, name, _HYDRA_SOURCE, _HYDRA_REMEDY) for name in ("PMI_RANK", "PMI_SIZE"))
    if size == 1:
        return None
    here = number_of(environ, "MPI_LOCALNRANKS", _HYDRA_SOURCE, _HYDRA_REMEDY)
    name = environ.get("PMI_PORT") or (job or proxy_of_this_process)()
    return ranks_of_one_machine(rank, size, here, name, _HYDRA_SOURCE, _HYDRA_REMEDY)


def proxy_of_this_process(proc: Path = _PROC, pid: int | None = None) -> str | None:
    """The nearest ancestor that is a proxy of Hydra, by its process id and its start; None where there is none."""
    pid = os.getpid() if pid is None else pid
    for _ in range(_MOST_ANCESTORS):
        try:
            # The name is in brackets and may contain any character.
            name, _, rest = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")
            fields = rest.split()
            parent, start = int(fields[1]), fields[19]
        except (OSError, ValueError, IndexError):
            return None
        if name.partition("(")[2] in _PROXIES:
            return f"{pid}:{start}"
        pid = parent
    return None
