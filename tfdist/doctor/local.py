"""Everything that is checked on this machine alone."""

from __future__ import annotations

from tfdist.cluster.discover import discover
from tfdist.cluster.membership import Membership
from tfdist.cluster.variables import deciding
from tfdist.doctor import nvidia
from tfdist.doctor.check import Check
from tfdist.doctor.environment_checks import check_cluster, check_variables
from tfdist.doctor.machine import this_machine
from tfdist.doctor.machine_checks import check_machine
from tfdist.doctor.probing import Request, probe
from tfdist.doctor.tensorflow_checks import check_run, check_tensorflow
from tfdist.doctor.versions import check_versions, installed
from tfdist.errors import ClusterError


def check_here(membership: Membership | None, seconds: float) -> list[Check]:
    """Checks this machine.

    Args:
        membership: Who takes part, as the command line says; None to look in the environment as `tfdist train` does.
        seconds: How long TensorFlow may take to be imported and asked.
    """
    environ = deciding()
    try:
        taking_part: Membership | ClusterError = membership or discover()
    except ClusterError as error:
        taking_part = error
    known = None if isinstance(taking_part, ClusterError) else taking_part
    gpus = nvidia.ask()
    found = probe(_request(known, seconds))
    return [
        *check_versions(installed()),
        *check_variables(environ),
        *check_tensorflow(found, gpus),
        *check_machine(this_machine(), gpus, len(known.machine) if known else 1, environ),
        check_cluster(taking_part),
        *check_run(found, known),
    ]


def _request(membership: Membership | None, seconds: float) -> Request:
    if membership is None:
        return Request(1, 0, 1, seconds)
    rank = membership.machine.index(membership.local[0])
    return Request(membership.num_workers, rank, len(membership.machine), seconds)
