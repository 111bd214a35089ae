"""MPICH and Intel MPI: the cluster from the variables that their process manager, Hydra, sets for each rank.

They have neither a list of hosts nor a name of the job, so this works only when all ranks run on one machine, where
they have one Hydra proxy among their ancestors. Ranks of other managers that speak PMIx alone have no size, and are
refused: each would train alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tfdist.cluster.membership import Membership
from tfdist.cluster.mpi.mpi_ranks import number_of, ranks_of_one_machine
from tfdist.errors import ClusterError

_REMEDY = "Give the list with --workers, and --index $PMI_RANK."
_SOURCE = "MPI (Hydra)"
_PROXIES = ("hydra_pmi_proxy", "pmi_proxy")
_PROC = Path("/proc")
_MOST_ANCESTORS = 64


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
        environ: Its environment.
        job: Returns what only the ranks of this job have in common; None asks the system.

    Raises:
        ClusterError: The ranks run on several machines, or the variables contradict one another.
    """
    if not is_hydra_rank(environ):
        return None
    rank, size = (number_of(environ, name, _SOURCE, _REMEDY) for name in ("PMI_RANK", "PMI_SIZE"))
    if size == 1:
        return None
    here = number_of(environ, "MPI_LOCALNRANKS", _SOURCE, _REMEDY)
    name = environ.get("PMI_PORT") or (job or proxy_of_this_process)()
    return ranks_of_one_machine(rank, size, here, name, _SOURCE, _REMEDY)


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
