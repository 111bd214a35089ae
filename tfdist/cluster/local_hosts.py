"""Finds the hosts of a worker list that are this machine, by its names and by the addresses of its interfaces."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable

from tfdist.cluster.cluster_spec import is_loopback
from tfdist.errors import ClusterError

RESOLVE_SECONDS = 10.0
# Reserved for documentation (RFC 5737, RFC 3849): no machine has them.
_UNASSIGNED = ("192.0.2.1", "2001:db8::1")

Resolve = Callable[[str], list[str]]


def resolve(host: str) -> list[str]:
    """The IP addresses of `host`, empty when it has none. Takes as long as the system's resolver takes."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def can_bind(address: str) -> bool:
    """Whether an interface of this machine has `address`: only then does the kernel let a socket be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # A link-local address comes with its zone, which getaddrinfo turns into a scope id.
            probe.bind(socket.getaddrinfo(address, 0, family, flags=socket.AI_NUMERICHOST)[0][4])
    except OSError:
        return False
    return True


def local_hosts(
    hosts: Iterable[str],
    *,
    resolver: Resolve = resolve,
    timeout: float = RESOLVE_SECONDS,
    can_bind: Callable[[str], bool] = can_bind,
) -> frozenset[str]:
    """Those of `hosts` that are this machine. A name that does not resolve in time counts only if it is its own.

    Args:
        hosts: Names and addresses of a worker list.
        resolver: Looks a name up.
        timeout: Seconds for all look-ups together.
        can_bind: Whether an IP address is this machine's.

    Raises:
        ClusterError: This machine binds other machines' addresses too, so they cannot be told apart.
    """
    own_names = _own_names()
    wanted = set(hosts)
    local = {host for host in wanted if is_loopback(host) or host in own_names}
    others = wanted - local
    if not others:
        return frozenset(local)
    if any(can_bind(address) for address in _UNASSIGNED):
        raise ClusterError(
            "This machine binds addresses that are not its own (sysctl ip_nonlocal_bind), so tfdist cannot tell which "
            f"worker is this machine's. Expected: --index I with this machine's entry. Received: {sorted(others)}"
        )
    for host, addresses in _resolve_all(others, resolver, timeout).items():
        if any(is_loopback(address) or can_bind(address) for address in addresses):
            local.add(host)
    return frozenset(local)


def _own_names() -> frozenset[str]:
    name = socket.gethostname().lower()
    return frozenset({name, name.partition(".")[0]})


def _resolve_all(hosts: Iterable[str], resolver: Resolve, timeout: float) -> dict[str, list[str]]:
    """Looks all names up at once, so that a resolver that does not answer delays many names no longer than one."""
    found: dict[str, list[str]] = {}
    left = set(hosts)
    done = threading.Condition()

    def look_up(host: str) -> None:
        addresses = resolver(host)
        with done:
            found[host] = addresses
            left.discard(host)
            done.notify()

    for host in tuple(left):
        threading.Thread(target=look_up, args=(host,), name=f"tfdist-resolve-{host}", daemon=True).start()
    with done:
        done.wait_for(lambda: not left, timeout)
        return dict(found)
