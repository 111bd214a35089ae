"""Cluster specification: the ordered list of worker addresses, the same on every host."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from tfdist.errors import ClusterError

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+)+")
_SHOWN = 4
_MOST_DIGITS = 18
_EXAMPLE = "such as host1:20000,host2:20000 or [fd00::1]:20000"


def whole_number(text: str) -> int | None:
    """The number that `text` is in decimal digits; None for another text, or for more digits than a count has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def is_loopback(host: str) -> bool:
    """Returns whether `host` means the machine itself on every machine: localhost, 127.x.y.z, ::1."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _canonical_host(host: str) -> str:
    """The canonical spelling of `host`, by which the lists of several hosts are compared."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower()
    return str(getattr(address, "ipv4_mapped", None) or address)


@dataclass(frozen=True)
class Address:
    """The address on which one worker's TensorFlow server listens.

    Attributes:
        host: A name, an IPv4 address or an IPv6 address without brackets, in lower case.
        port: 1 to 65535.
    """

    host: str
    port: int

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise ClusterError(f"A worker's port must be 1 to 65535. Received: port={self.port} for host {self.host!r}")
        try:
            unspecified = ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            unspecified = False
            # Resolvers read some numbers in their own way: 10.0.0.010 as 10.0.0.8, and 127.1 as 127.0.0.1.
            if not _HOST_NAME.fullmatch(self.host) or _NUMBERS.fullmatch(self.host):
                raise ClusterError(
                    f"A worker's host must be a name, an IPv4 address or an IPv6 address in brackets, {_EXAMPLE}. "
                    f"Received: host={self.host!r}"
                ) from None
        if unspecified:
            raise ClusterError(
                f"{self.host} means 'every address', to which other workers cannot connect: write the address by which "
                f"they reach this host. Received: {self}"
            )
        object.__setattr__(self, "host", _canonical_host(self.host))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads `host:port` or `[ipv6]:port`.

        Raises:
            ClusterError: The text is empty, has no host, or has no port or an invalid one.
        """
        text = text.strip()
        if not text:
            raise ClusterError(f"A worker list has an empty entry: write host:port between commas, {_EXAMPLE}.")
        if text.startswith("["):
            host, bracket, port = text[1:].partition("]")
            if not bracket or (port and not port.startswith(":")):
                raise ClusterError(f"An IPv6 worker is written [address]:port, {_EXAMPLE}. Received: {text!r}")
            port = port[1:]
        else:
            host, _, port = text.rpartition(":")
            if ":" in host and "/" not in host:
                raise ClusterError(f"An IPv6 worker needs brackets and a port, {_EXAMPLE}. Received: {text!r}")
        if not host or not port:
            missing = "host" if text.startswith(":") else "port"
            raise ClusterError(f"A worker needs a host and a port, {_EXAMPLE}. Received: {text!r} without a {missing}")
        number = whole_number(port)
        if number is None:
            raise ClusterError(f"A worker's port must be a number from 1 to 65535. Received: {text[:200]!r}")
        return cls(host, number)


@dataclass(frozen=True)
class Cluster:
    """The ordered workers of one job; worker 0 is the chief.

    Attributes:
        workers: One address for each worker, at least one, no two the same.

    Raises:
        ClusterError: The addresses do not make a cluster.
    """

    workers: tuple[Address, ...]

    def __post_init__(self) -> None:
        if not self.workers:
            raise ClusterError(f"A worker list must name at least one worker, {_EXAMPLE}. Received: an empty list")
        self._check_duplicates()
        self._check_loopback()

    def _check_duplicates(self) -> None:
        seen: dict[tuple[str, int], int] = {}
        for index, address in enumerate(self.workers):
            # TensorFlow's server listens on every interface, so the workers of one machine need different ports.
            key = ("loopback" if is_loopback(address.host) else address.host, address.port)
            if key in seen:
                raise ClusterError(
                    f"Workers {seen[key]} and {index} have the same address, and each needs its own: give workers of "
                    f"one machine different ports. Received: {self.workers[seen[key]]} and {address}"
                )
            seen[key] = index

    def _check_loopback(self) -> None:
        loopback = [address for address in self.workers if is_loopback(address.host)]
        others = [address for address in self.workers if not is_loopback(address.host)]
        if loopback and others:
            raise ClusterError(
                f"{loopback[0]} means another machine on every host, so it cannot stand in a list with other hosts "
                f"such as {others[0]}: write the name or address by which the other hosts reach it. Received: {self}"
            )

    @classmethod
    def parse(cls, text: str) -> Cluster:
        """Reads a list such as `host1:20000,[::1]:20001`.

        Raises:
            ClusterError: The list is empty, or an entry or the list as a whole is invalid.
        """
        if not text.strip():
            return cls(())
        return cls(tuple(Address.parse(entry) for entry in text.split(",")))

    def __len__(self) -> int:
        return len(self.workers)

    def __str__(self) -> str:
        return ",".join(str(address) for address in self.workers)

    @property
    def brief(self) -> str:
        """The list for messages, in which long ones have their first entries and the last alone."""
        first, last = ",".join(map(str, self.workers[:_SHOWN])), self.workers[-1]
        return str(self) if len(self) <= _SHOWN + 1 else f"{first},...,{last} ({len(self)} workers)"

    def check_index(self, index: int) -> int:
        """Returns `index` when the cluster has that worker.

        Raises:
            ClusterError: It has not.
        """
        if not 0 <= index < len(self.workers):
            raise ClusterError(
                f"The cluster has {len(self.workers)} worker(s), so an index must be 0 to {len(self.workers) - 1}. "
                f"Received: index={index}"
            )
        return index
