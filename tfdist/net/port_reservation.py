"""Reservation of this machine's worker ports, from before the cluster forms until the workers are gone.

Two things hold a port. An abstract unix socket, which the kernel gives to one process and frees at its death, keeps
out a second tfdist job. A bound TCP socket that does not listen keeps out everybody else: with SO_REUSEPORT, and with
TF_GRPC_REUSE_PORT=true in the worker, TensorFlow can listen on the port while the launcher still has it, so the
port is never free in between.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.cluster.membership import Membership
from tfdist.cluster.ports import (
    candidate_ports,
    has_recent_connections,
    listening_inodes,
    port_owner,
    tcp_tables,
    unix_socket_owner,
)
from tfdist.errors import PortTakenError

_REMEDY = "Choose another port in --workers (the same list on every host), or end what has it."


def bind_reusable(port: int) -> socket.socket:
    """A TCP socket bound to `port` on every interface, IPv6 and IPv4 where there is IPv6, that can share it.

    Raises:
        OSError: Somebody who does not share has the port, or this user may not bind it.
    """
    try:
        bound = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("", port))
    except BaseException:
        bound.close()
        raise
    return bound


class PortReservation:
    """Ports that this process holds; a context manager that frees them."""

    def __init__(self) -> None:
        self._sockets = contextlib.ExitStack()

    def __enter__(self) -> PortReservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees every port."""
        self._sockets.close()

    def take(self, port: int) -> None:
        """Takes `port`.

        Raises:
            PortTakenError: It belongs to another process or to another tfdist job; the text says which, if it can.
        """
        with contextlib.ExitStack() as taken:
            taken.enter_context(_lock(port))
            taken.enter_context(_bind(port))
            # A listener of this user that shares the port does not stop the bind, so look for one.
            if listening_inodes(port):
                raise _taken(port, port_owner(port))
            self._sockets.push(taken.pop_all())


def reserve_ports(membership: Membership, reservation: PortReservation) -> Membership:
    """Takes the ports of the workers that are started here.

    Returns:
        The membership; with other ports when tfdist may choose them and some were taken.

    Raises:
        PortTakenError: A port that the user chose, or every port that tfdist may choose, is taken.
    """
    cluster = membership.cluster
    if cluster is None:
        return membership
    if not membership.ports_chosen:
        for index in membership.local:
            reservation.take(cluster.workers[index].port)
        return membership
    return replace(membership, cluster=_take_any(cluster, reservation))


def _take_any(cluster: Cluster, reservation: PortReservation) -> Cluster:
    wanted = [address.port for address in cluster.workers]
    taken: list[int] = []
    for port in _unique([*wanted, *candidate_ports(random.randrange(1 << 30))]):
        if len(taken) == len(wanted):
            break
        with contextlib.suppress(PortTakenError):
            reservation.take(port)
            taken.append(port)
    if len(taken) < len(wanted):
        raise PortTakenError(
            f"This machine has {len(taken)} free port(s) among those that tfdist chooses from, and {len(wanted)} are "
            "needed. End other jobs, or choose ports with --workers."
        )
    return Cluster(tuple(Address(a.host, port) for a, port in zip(cluster.workers, taken, strict=True)))


def _unique(ports: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(ports))


def _lock(port: int) -> socket.socket:
    name = f"tfdist-port-{port}"
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0{name}")
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        owner = unix_socket_owner(name) or "of another user"
        raise PortTakenError(
            f"Port {port}, which this machine's worker needs, belongs to another tfdist job: {owner}. {_REMEDY}"
        ) from None
    return lock


def _bind(port: int) -> socket.socket:
    try:
        return bind_reusable(port)
    except PermissionError:
        raise PortTakenError(
            f"Port {port} may not be used by this user. Expected a port from 1024 on, better from 20000 to 31999. "
            f"Received: port {port}. {_REMEDY}"
        ) from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise PortTakenError(f"Port {port} cannot be used: {error}. {_REMEDY}") from error
        raise _taken(port, port_owner(port)) from None


def _taken(port: int, owner: str | None) -> PortTakenError:
    if (
        owner is None
        and not listening_inodes(port)
        and any(has_recent_connections(table, port) for table in tcp_tables())
    ):
        return PortTakenError(
            f"Port {port}, which this machine's worker needs, still has connections of a program that used it. "
            f"Those of one that has ended are gone after a minute: try again then. Or: {_REMEDY}"
        )
    return PortTakenError(
        f"Port {port}, which this machine's worker needs, is taken by {owner or 'a process that cannot be named'}. "
        f"{_REMEDY}"
    )
