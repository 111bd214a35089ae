"""Local checks: everything that is checked on this machine alone."""

from __future__ import annotations

import time
from collections.abc import Callable

from tfdist.cluster.discover import discover
from tfdist.cluster.environment_variables import run_variables
from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import Check
from tfdist.doctor.machine import nvidia_smi
from tfdist.doctor.machine.environment_checks import check_cluster, check_variables
from tfdist.doctor.machine.machine_checks import check_machine
from tfdist.doctor.machine.machine_facts import this_machine
from tfdist.doctor.machine.package_versions import check_versions, installed
from tfdist.doctor.machine.tensorflow_checks import check_run, check_tensorflow
from tfdist.doctor.machine.tensorflow_facts import ProbeRequest, probe
from tfdist.errors import ClusterError

_DRIVER_SHARE = 0.5
"""Of the whole time, what NVIDIA's driver may take."""
_LEAST_SECONDS = 0.1


def check_here(
    membership: Membership | None, seconds: float, clock: Callable[[], float] = time.monotonic
) -> list[Check]:
    """Checks this machine.

    Args:
        membership: Who takes part, as the command line says; None to look in the environment as `tfdist train` does.
        seconds: How long the queries of NVIDIA's driver and TensorFlow may take together.
        clock: Seconds, never going back.
    """
    environ = run_variables()
    try:
        taking_part: Membership | ClusterError = membership or discover()
    except ClusterError as error:
        taking_part = error
    known = None if isinstance(taking_part, ClusterError) else taking_part
    deadline = clock() + seconds
    gpus = nvidia_smi.ask(seconds=min(nvidia_smi.MOST_SECONDS, seconds * _DRIVER_SHARE))
    found = probe(_request(known, max(round(deadline - clock(), 1), _LEAST_SECONDS)))
    return [
        *check_versions(installed()),
        *check_variables(environ),
        *check_tensorflow(found, gpus),
        *check_machine(this_machine(), gpus, len(known.machine) if known else 1, environ),
        check_cluster(taking_part),
        *check_run(found, known),
    ]


def _request(membership: Membership | None, seconds: float) -> ProbeRequest:
    if membership is None:
        return ProbeRequest(1, 0, 1, seconds)
    rank = membership.machine.index(membership.local[0])
    return ProbeRequest(membership.num_workers, rank, len(membership.machine), seconds)
