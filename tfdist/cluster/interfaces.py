"""Addresses of this machine's network interfaces, and which of them are public."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path

_PROC_NET = Path("/proc/net")


def public_addresses(hosts: Iterable[str]) -> tuple[str, ...]:
    """Those of `hosts` that are public IP addresses, each once; names are left out."""
    return tuple(dict.fromkeys(host for host in hosts if is_public(host)))


def own_addresses(lists: Path = _PROC_NET) -> tuple[str, ...]:
    """The IPv4 and IPv6 addresses of this machine's interfaces, as the kernel lists them; empty where it does not."""
    return (*ipv4_addresses(_read(lists / "fib_trie")), *ipv6_addresses(_read(lists / "if_inet6")))


def ipv4_addresses(routes: str) -> list[str]:
    """The machine's own addresses, each once, from the text of /proc/net/fib_trie."""
    found: list[str] = []
    leaf = ""
    for line in map(str.strip, routes.splitlines()):
        if line.startswith("|-- "):
            leaf = line.removeprefix("|-- ")
        elif line.startswith("/32 host LOCAL") and leaf not in found:
            found.append(leaf)
    return found


def ipv6_addresses(table: str) -> list[str]:
    """The machine's own addresses from the text of /proc/net/if_inet6: 32 hexadecimal digits begin each line."""
    digits = [line.split()[0] for line in table.splitlines() if line.strip()]
    return [str(ipaddress.IPv6Address(int(text, 16))) for text in digits]


def is_public(host: str) -> bool:
    """Returns whether `host` is a public IP address; False for a name."""
    try:
        # A link-local address may come with its zone, as in fe80::1%eth0.
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_global and not address.is_multicast


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
