"""Checks of the connections between this machine's workers and all others: their ports here, then every pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tfdist.cluster.environment_variables import run_variables
from tfdist.cluster.membership import Membership
from tfdist.doctor.check_result import CLUSTER_CODE, Check, fail, ok
from tfdist.doctor.mesh.doctor_hello import DoctorHello
from tfdist.doctor.mesh.link_measurement import Clocks
from tfdist.doctor.mesh.mesh import Mesh
from tfdist.doctor.mesh.pair import LEFT_ALONE, Pair
from tfdist.errors import PortTakenError
from tfdist.net.connection_attempts import Resolver, look_up
from tfdist.net.port_reservation import PortReservation
from tfdist.net.shared_token import VARIABLE
from tfdist.net.told_list import in_words


@dataclass(frozen=True)
class Connections:
    """The results.

    Attributes:
        checks: Of this machine's ports, and of the worker lists.
        pairs: Every known connection: this machine's, and those that other doctors told of.
    """

    checks: tuple[Check, ...] = ()
    pairs: tuple[Pair, ...] = ()


def check_connections(
    membership: Membership, seconds: float, clocks: Clocks, tell: Callable[[str], None], resolver: Resolver = look_up
) -> Connections:
    """Takes those of this machine's ports that are free, and meets the doctors of the other hosts.

    Args:
        membership: The cluster, and this machine's workers.
        seconds: How long it may take.
        clocks: The time.
        tell: Called with lines of progress.
        resolver: Looks addresses up.
    """
    cluster = membership.cluster
    if cluster is None:
        return Connections((ok("connections", "one worker has none"),))
    with PortReservation() as reservation:
        taken: dict[int, str] = {}
        for index in membership.local:
            try:
                reservation.take(cluster.workers[index].port)
            except PortTakenError as error:
                taken[index] = str(error)
        ports = [_port(index, cluster.workers[index].port, taken.get(index)) for index in membership.local]
        hello = replace(DoctorHello.own(cluster, membership.local), token=VARIABLE in run_variables(), taken=taken)
        mesh = Mesh(cluster, hello, clocks, seconds, tell, resolver)
        pairs = mesh.run()
    lists = [_other_list(host, theirs, hello.cluster) for host, theirs in mesh.other_lists.items()]
    return Connections((*ports, *lists), tuple(pairs))


def _port(index: int, port: int, taken: str | None) -> Check:
    name = f"port {port}"
    if taken is None:
        return ok(name, f"free for worker {index}; held and answered on during the check")
    return fail(name, taken, LEFT_ALONE)


def _other_list(host: str, theirs: str, mine: str) -> Check:
    found = f"{host} was given {in_words(theirs)}\nand this one {in_words(mine)}"
    return fail("worker list", found, "Give the same list in the same order on every host.", CLUSTER_CODE)
