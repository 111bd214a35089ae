"""Checks the connections of this machine's workers with all others: their ports here, then every pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tfdist.cluster.environment_variables import run_variables
from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import CLUSTER, Check, fail, ok
from tfdist.doctor.mesh.doctor_hello import DoctorHello
from tfdist.doctor.mesh.link_measurement import Clocks
from tfdist.doctor.mesh.mesh import Mesh
from tfdist.doctor.mesh.pair import Pair
from tfdist.errors import PortTakenError
from tfdist.net.connection_attempts import Resolver, look_up
from tfdist.net.port_lease import PortLease
from tfdist.net.shared_token import VARIABLE


@dataclass(frozen=True)
class Connections:
    """What was found of them.

    Attributes:
        checks: Of this machine's ports, and of the worker lists.
        pairs: Every connection that is known of: this machine's, and those that other doctors told of.
    """

    checks: tuple[Check, ...] = ()
    pairs: tuple[Pair, ...] = ()


def check_connections(
    membership: Membership, seconds: float, clocks: Clocks, tell: Callable[[str], None], resolver: Resolver = look_up
) -> Connections:
    """Takes this machine's ports, where nobody has them, and meets the doctors of the other hosts.

    Args:
        membership: The cluster, and this machine's workers.
        seconds: How long it may take.
        clocks: The time.
        tell: Is told how far it is.
        resolver: Looks addresses up.
    """
    cluster = membership.cluster
    if cluster is None:
        return Connections((ok("connections", "one worker has none"),))
    with PortLease() as hold:
        taken: dict[int, str] = {}
        for index in membership.local:
            try:
                hold.take(cluster.workers[index].port)
            except PortTakenError as error:
                taken[index] = str(error)
        ports = [_port(index, cluster.workers[index].port, taken.get(index)) for index in membership.local]
        hello = replace(DoctorHello.own(cluster, membership.local), token=VARIABLE in run_variables(), taken=taken)
        mesh = Mesh(cluster, hello, clocks, seconds, tell, resolver)
        pairs = mesh.run()
    lists = [_other_list(host, theirs, str(cluster)) for host, theirs in mesh.other_lists.items()]
    return Connections((*ports, *lists), tuple(pairs))


def _port(index: int, port: int, taken: str | None) -> Check:
    name = f"port {port}"
    if taken is None:
        return ok(name, f"free for worker {index}; held and answered on during the check")
    return fail(name, taken, "It was left alone. If it is a job of yours, check again when that has ended.")


def _other_list(host: str, theirs: str, mine: str) -> Check:
    found = f"{host} was given {theirs}\nand this one {mine}"
    return fail("worker list", found, "Give the same list in the same order on every host.", CLUSTER)
