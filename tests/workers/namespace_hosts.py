"""Network namespaces as hosts: each has addresses, a name and a link of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Host:
    """One namespace.

    Attributes:
        name: Its name.
        ipv4, ipv6: Its addresses.
        link: Its interface.
    """

    name: str
    ipv4: str
    ipv6: str
    link: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Runs a command there, with a host name of its own."""
        return (*INSIDE, self.name, "unshare", "--uts", "sh", "-c", f'hostname {self.name}; exec "$@"', "sh")

    def set_link(self, state: str) -> None:
        ip("-n", self.name, "link", "set", self.link, state)


INSIDE = ("ip", "netns", "exec")


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts on one link, `10.91.0.1` and `10.91.0.2`."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need ip (iproute2) and unshare (util-linux)")
    tag = f"tfd{os.getpid() % 100_000}"
    made = tuple(Host(f"{tag}-{n}", f"10.91.0.{n}", f"fd00:91::{n}", f"{tag}v{n}") for n in (1, 2))
    try:
        try:
            for host in made:
                ip("netns", "add", host.name)
            ip(
                "link",
                "add",
                made[0].link,
                "netns",
                made[0].name,
                "type",
                "veth",
                "peer",
                made[1].link,
                "netns",
                made[1].name,
            )
            for host in made:
                ip("-n", host.name, "addr", "add", f"{host.ipv4}/24", "dev", host.link)
                ip("-n", host.name, "addr", "add", f"{host.ipv6}/64", "dev", host.link, "nodad")
                ip("-n", host.name, "link", "set", "lo", "up")
                host.set_link("up")
        except OSError as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        yield made[0], made[1]
    finally:
        for host in made:
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, timeout=20)
