"""Network namespaces as hosts: each has addresses, a name and a link of its own, and all are on one switch.

A process in each keeps it, and ends with the process that has made it: however that ends, nothing is left of them, nor
of what runs there.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tfdist.errors import UsageError

LINK = "eth0"
"""The interface of every host."""

_TOOLS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "find": "findutils"}
_SECONDS = 20
_KILL_AGAIN_SECONDS = 0.05
_KEEPER = """
hostname "$1" && echo ready || exit
while read -r _; do :; done
own=$(readlink /proc/self/ns/net)
own=${own#*[}
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    found=
    for each in $(find /proc/[0-9]*/ns/net -lname "net:?${own%]}?" 2>/dev/null); do
        pid=${each#/proc/} pid=${pid%%/*}
        if [ "$pid" != $$ ] && kill -KILL "$pid" 2>/dev/null; then found=1; fi
    done
    if [ -z "$found" ]; then exit; fi
done
"""
"""Once nobody holds its input, it ends what runs in its network, in rounds as that may start others meanwhile."""
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_RATE = re.compile(r"([1-9][0-9]{0,5})(kbit|mbit|gbit)")
_LEAST_BURST = 64 * 1024
_QUEUE = "50ms"


class NamespacesUnavailableError(UsageError):
    """This system, or this user, cannot make such hosts; the text says what lacks, and the remedy."""


@dataclass(frozen=True)
class NamespaceHost:
    """One namespace.

    Attributes:
        name: Its host name.
        ipv4, ipv6: Its addresses.
        keeper: The process that keeps it.
    """

    name: str
    ipv4: str
    ipv6: str
    keeper: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """Runs a command there, with its host name."""
        return ("nsenter", "--target", str(self.keeper), "--net", "--uts", "--")

    def ip(self, *arguments: str) -> None:
        """`ip ARGUMENTS` there.

        Raises:
            OSError: It failed.
        """
        _run(*self.prefix, "ip", *arguments)

    def set_link(self, state: str) -> None:
        """Sets its link `up` or `down`."""
        self.ip("link", "set", LINK, state)

    def processes(self) -> list[int]:
        """The processes that run there, besides its keeper."""
        network = _network_of(self.keeper)
        found = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return [pid for pid in found if pid != self.keeper and network is not None and _network_of(pid) == network]

    def kill(self) -> None:
        """Ends all that runs there by SIGKILL, as a loss of power does; its connections break, unless its link is down.

        Raises:
            OSError: Something does not end.
        """
        deadline = time.monotonic() + _SECONDS
        # Again and again: what is killed may have started something a moment before.
        while left := self.processes():
            if time.monotonic() > deadline:
                raise OSError(f"processes of {self.name} do not end by SIGKILL: {left}")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_KILL_AGAIN_SECONDS)


def check_rate(text: str) -> str:
    """A rate as `tc` has it, in bits a second: `100mbit`, `1gbit`.

    Raises:
        ValueError: It is none.
    """
    if _RATE.fullmatch(text) is None:
        raise ValueError(f"expected bits a second in kbit, mbit or gbit, such as 100mbit or 1gbit. Received: {text!r}")
    return text


@contextlib.contextmanager
def namespace_hosts(count: int, rate: str | None = None) -> Iterator[tuple[NamespaceHost, ...]]:
    """Hosts on one switch, `10.91.0.1`, `10.91.0.2` and so on. At the end they are gone.

    Args:
        rate: What each may send, and receive, in a second, see `check_rate`; None for no limit.

    Raises:
        NamespacesUnavailableError: They cannot be made.
    """
    _check_system()
    with contextlib.ExitStack() as keepers:
        try:
            tag = f"tfd{os.getpid()}"
            switch = NamespaceHost(f"{tag}-switch", "", "", keepers.enter_context(_kept(f"{tag}-switch")))
            switch.ip("link", "add", "bridge", "type", "bridge")
            switch.ip("link", "set", "bridge", "up")
            hosts = []
            for number in range(1, count + 1):
                name = f"{tag}-{number}"
                keeper = keepers.enter_context(_kept(name))
                host = NamespaceHost(name, f"10.91.0.{number}", f"fd00:91::{number}", keeper)
                _plug(host, switch, f"port{number}", rate)
                hosts.append(host)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NamespacesUnavailableError(
                f"network namespaces cannot be made here: {error}. Where this is a container, start it with "
                "--cap-add SYS_ADMIN --cap-add NET_ADMIN."
            ) from None
        yield tuple(hosts)


def _plug(host: NamespaceHost, switch: NamespaceHost, port: str, rate: str | None) -> None:
    """Leads a link from the host to the switch."""
    ends = ("name", LINK, "type", "veth", "peer", "name", port, "netns", str(switch.keeper))
    host.ip("link", "add", *ends)
    switch.ip("link", "set", port, "master", "bridge", "up")
    host.ip("addr", "add", f"{host.ipv4}/24", "dev", LINK)
    host.ip("addr", "add", f"{host.ipv6}/64", "dev", LINK, "nodad")
    host.ip("link", "set", "lo", "up")
    host.set_link("up")
    if rate is not None:
        # At both ends: tc holds back what an interface sends, so that the switch's end is what the host receives.
        for prefix, link in ((host.prefix, LINK), (switch.prefix, port)):
            limit = ("rate", rate, "burst", str(_burst(rate)), "latency", _QUEUE)
            _run(*prefix, "tc", "qdisc", "add", "dev", link, "root", "tbf", *limit)


def _burst(rate: str) -> int:
    """Bytes that may leave at once: those of a millisecond, and a large packet at least."""
    found = _RATE.fullmatch(check_rate(rate))
    assert found is not None
    return max(_LEAST_BURST, int(float(found[1]) * _UNITS[found[2]] / 8 / 1000))


@contextlib.contextmanager
def _kept(name: str) -> Iterator[int]:
    """A process in namespaces of its own, with a host name; it ends when its input does, which this process holds.

    All that runs there ends with it.
    """
    keeper = subprocess.Popen(
        ["unshare", "--net", "--uts", "--", "sh", "-c", _KEEPER, "sh", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # an interrupt from the terminal is for those that use it
    )
    assert keeper.stdout is not None
    try:
        said = keeper.stdout.readline() if select.select([keeper.stdout], (), (), _SECONDS)[0] else b"no answer"
        if said != b"ready\n":
            raise OSError(said.decode(errors="replace").strip() or "unshare printed nothing")
        yield keeper.pid
    finally:
        try:
            keeper.communicate(timeout=_SECONDS)
        finally:
            keeper.kill()
            keeper.wait()


def _network_of(pid: int) -> str | None:
    """The network namespace of a process; None where it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def _check_system() -> None:
    if os.geteuid() != 0:
        raise NamespacesUnavailableError("network namespaces need root: start this with sudo.")
    lacking = sorted({package for tool, package in _TOOLS.items() if shutil.which(tool) is None})
    if lacking:
        tools = [tool for tool in _TOOLS if shutil.which(tool) is None]
        raise NamespacesUnavailableError(f"network namespaces need {', '.join(tools)}: install {', '.join(lacking)}.")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
