"""`tfdist launch --on mpi`: from the options to a launch."""

from __future__ import annotations

from tfdist.cli.launch.engines import EngineCall
from tfdist.cli.launch.on_ssh import chosen_python, host_launch
from tfdist.multihost.launching.host_launch import run_host_launch
from tfdist.multihost.mpi.mpirun_command import family_of, parse_mpirun
from tfdist.multihost.mpi.rank_link import RankLinks


def launch_on_mpi(call: EngineCall) -> int:
    """Trains on the hosts of a hostfile, by mpirun; returns the exit code.

    Raises:
        TfdistError: Something is in the way; nothing was started.
    """
    launch = host_launch(call)
    mpirun = parse_mpirun(call.options["mpirun"])
    with RankLinks(mpirun, family_of(mpirun[0]), launch.hosts, chosen_python(call)) as links:
        return run_host_launch(launch, links)
