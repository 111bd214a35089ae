"""The call of mpirun: which MPI's it is, and a rank on every host, each with its host's name."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence

from tfdist.bounded_process import run
from tfdist.errors import UsageError
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching.host_link import words_of
from tfdist.multihost.mpi.call_back import PLACES, SECRET

RANK_MODULE = "tfdist.multihost.mpi.rank_end"
_VERSION_SECONDS = 30.0
INTEL_PIN = "I_MPI_PIN"
"""Variable of Intel's mpirun: whether it binds ranks to cores."""


class MpiFamily(enum.Enum):
    """Whose mpirun it is."""

    OPEN_MPI = "Open MPI"
    MPICH = "MPICH"
    INTEL_MPI = "Intel MPI"


_UNBOUND = {
    MpiFamily.OPEN_MPI: ("--bind-to", "none"),
    MpiFamily.MPICH: ("-bind-to", "none"),
    MpiFamily.INTEL_MPI: (),  # by `INTEL_PIN`
}


def parse_mpirun(text: str) -> tuple[str, ...]:
    """The words of `--mpirun`. Raises `UsageError` as `words_of`."""
    return words_of(text, "--mpirun expected a command such as mpirun")


def family_of(mpirun: str) -> MpiFamily:
    """Whose it is, by what it says of its version.

    Raises:
        UsageError: There is no such program, or it is another one.
    """
    try:
        done = run([mpirun, "--version"], _VERSION_SECONDS)
        said = done.out + done.err
    except OSError as error:
        raise UsageError(
            f"mpirun cannot be started: {mpirun}: {error.strerror}. Expected a program. Install Open MPI or MPICH, or "
            "name its mpirun with --mpirun."
        ) from None
    if re.search(r"Open MPI|OpenRTE|PRRTE", said):
        return MpiFamily.OPEN_MPI
    if re.search(r"Intel\(R\) MPI", said):
        return MpiFamily.INTEL_MPI
    if "HYDRA" in said:
        return MpiFamily.MPICH
    raise UsageError(
        f"{mpirun} is no mpirun that tfdist knows. Expected Open MPI's, MPICH's or Intel MPI's. "
        f"Received, as its version: {said[:200]!r}"
    )


def mpirun_command(mpirun: Sequence[str], family: MpiFamily, hosts: Sequence[Host], python: str) -> list[str]:
    """The command that starts one rank on each host.

    Ranks may run on all cores of their hosts. They get `PLACES` and `SECRET` from the environment of mpirun, in which
    these must be; Intel's needs `INTEL_PIN` there.
    """
    rank_end = [python, "-P", "-m", RANK_MODULE]
    # Open MPI binds a single rank to one core, on which all of its host's training would run. The user's words may
    # bind otherwise: the last ones count.
    unbound = [mpirun[0], *_UNBOUND[family], *mpirun[1:]]
    if family is not MpiFamily.OPEN_MPI:
        # Rank I is on host I, and looks its name up.
        names = ",".join(host.name for host in hosts)
        return [*unbound, "-hosts", names, "-ppn", "1", "-n", str(len(hosts)), *rank_end, names]
    command = unbound
    for place, host in enumerate(hosts):
        rank = ["-np", "1", "--host", host.name, "-x", PLACES, "-x", SECRET]
        command += [*([":"] if place else []), *rank, *rank_end, host.name]
    return command
