"""Isolation of a job's workers in a network of their own, which nobody else can reach; and a warning without it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.cluster.interfaces import public_addresses
from tfdist.cluster.membership import Membership
from tfdist.errors import UsageError

Network = Literal["host", "private"]

_LOOPBACK = "127.0.0.1"
_SHOWN = 3
# From linux/sched.h, linux/sockios.h and linux/if.h.
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1
_REQUEST = struct.Struct("16sh22x")
_THREADS_SECONDS = 2.0
_ALLOWED = (
    "Expected: root with CAP_SYS_ADMIN, or a system that lets users make namespaces (sysctl user.max_user_namespaces "
    "above 0, kernel.apparmor_restrict_unprivileged_userns 0, a container whose seccomp profile allows unshare). "
    "Without it, leave --network out and let a firewall keep others from the worker ports: docs/security.md."
)


def make_private_network() -> None:
    """Moves this process into a new network namespace with a loopback interface.

    Raises:
        OSError: The system does not allow it.
    """
    _enter_namespace()
    _raise_loopback()


def enter_network(
    network: Network, membership: Membership, make_private: Callable[[], None] = make_private_network
) -> Membership:
    """Puts this process, and all processes that it starts afterwards, into the network that was asked for.

    A private network has a loopback interface and nothing else. The process cannot leave it, and a job in it has one
    launcher. Call this before ports are taken and before there are threads.

    Args:
        network: `host` for the machine's, where this does nothing.
        make_private: Moves the process into a private network, or raises OSError.

    Returns:
        The membership; in a private network with loopback addresses for all workers, as no others can be reached there.

    Raises:
        UsageError: Other launchers start workers of the job, or the system does not allow it.
    """
    if network == "host":
        return membership
    if membership.remote:
        raise UsageError(
            "--network private puts all workers of a job into one network of their own, which no other host and no "
            "other launcher reaches. Expected: a job of this machine that one command starts, such as --nproc N, or "
            f"--workers with this machine's entries alone. Received: {membership.source}, of which worker(s) "
            f"{', '.join(map(str, membership.remote))} are started elsewhere. Leave --network out for several machines."
        )
    try:
        make_private()
    except OSError as error:
        raise UsageError(
            f"--network private needs a network namespace, which this system does not let this user make "
            f"({error.strerror or error}). {_ALLOWED}"
        ) from error
    if membership.cluster is None:
        return membership
    addresses = tuple(Address(_LOOPBACK, worker.port) for worker in membership.cluster.workers)
    return replace(membership, cluster=Cluster(addresses))


def public_warning(network: Network, membership: Membership, addresses: Iterable[str]) -> str | None:
    """The warning that the internet may reach the port of a worker that is started here; None where it cannot.

    Args:
        addresses: Of this machine's interfaces. TensorFlow listens on all of them, whatever the worker list says.
    """
    if network == "private" or membership.cluster is None:
        return None
    local = [membership.cluster.workers[index] for index in membership.local]
    public = public_addresses([*addresses, *(address.host for address in local)])
    if not public:
        return None
    more = f" and {len(public) - _SHOWN} more" if len(public) > _SHOWN else ""
    ports = ", ".join(str(address.port) for address in local[:_SHOWN]) + (", ..." if len(local) > _SHOWN else "")
    private = "; or use --network private" if not membership.remote else ""
    return (
        f"warning: this machine has a public address ({', '.join(public[:_SHOWN])}{more}), and TensorFlow's worker "
        f"port(s) {ports} listen on it without a password: whoever reaches one can read and write files as you. Let a "
        f"firewall admit the cluster's own addresses alone{private} (docs/security.md)."
    )


def _enter_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(_NEW_NETWORK)
        return
    except PermissionError:
        # Not root: in a user namespace of its own, a user may make network namespaces.
        _unshare(_NEW_USER | _NEW_NETWORK)
    own = Path("/proc/self")
    # Older kernels have no setgroups file; newer ones take a map of groups only after this.
    with contextlib.suppress(FileNotFoundError):
        (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")


def _unshare(flags: int) -> None:
    """Moves this process into new namespaces. Python has os.unshare from 3.12 on."""
    # Imported here: most launchers need no namespace.
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    deadline = time.monotonic() + _THREADS_SECONDS
    while libc.unshare(ctypes.c_int(flags)):
        code = ctypes.get_errno()
        # A process with a second thread gets no user namespace; the thread of a name's look-up may be about to end.
        if code != errno.EINVAL or time.monotonic() > deadline:
            raise OSError(code, os.strerror(code))
        time.sleep(0.01)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _, flags = _REQUEST.unpack(fcntl.ioctl(any_socket, _GET_FLAGS, _REQUEST.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, _SET_FLAGS, _REQUEST.pack(b"lo", flags | _UP))
