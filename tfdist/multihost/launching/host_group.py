"""Host group: the connections of a launch. Connects and checks all hosts, then tells them what to do."""

from __future__ import annotations

import enum
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfdist.errors import FormingError, UsageError
from tfdist.launch.signals import Signals
from tfdist.multihost.hosts import Host
from tfdist.multihost.launching.host_link import Heard, HostLink, HostProblem
from tfdist.multihost.launching.protocol import SIGN_SECONDS, HostFacts, message
from tfdist.net.bounded_wait import Source

AT_ONCE = 32
"""Connections that are being made at the same time."""
CHECK_SECONDS = 30.0
"""Seconds that a host that has answered may take to check."""
_PAUSE = 0.5

Connect = Callable[[Host], HostLink]
"""Starts a connection, and tells the host what to check."""
Explain = Callable[[Host, HostLink, int | None], HostProblem]
"""Says why a host has never answered: what its ssh exited with, None when time is over."""


class HostState(enum.Enum):
    """The states of a host in a launch.

    ::

        WAITING ---> CONNECTING ---> CHECKED ---> RUNNING ---> ENDED
                         |              |            |
                         +--------------+------------+-------> LOST

    In an elastic run a host that has ENDED or is LOST may be CONNECTING again.

    CONNECTING: ssh was started, and the host has not answered. CHECKED: it has, and nothing is in the way. RUNNING: it
    was told to start `tfdist train`. ENDED: that has ended, and the host has said how. LOST: the host has refused, or
    its connection ended before that.
    """

    WAITING = "waiting"
    CONNECTING = "connecting"
    CHECKED = "checked"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass
class LaunchHost:
    """One host of a launch.

    Attributes:
        host: Its name and slots.
        state: How far it is.
        link: Its connection; None before there is one.
        since: When it was made, or the host has answered, by the monotonic clock.
        has_answered: Whether the host has said that it is there.
        facts: What it has found.
        problem: Why it is lost.
        code: What `tfdist train` ended with.
        formed: Its run directory, when it says that the job has formed.
        last_output: The end of the output of a run that nobody watches.
    """

    host: Host
    state: HostState = HostState.WAITING
    link: HostLink | None = None
    since: float = 0.0
    has_answered: bool = False
    facts: HostFacts | None = None
    problem: HostProblem | None = None
    code: int | None = None
    formed: str | None = None
    last_output: str = ""

    @property
    def is_over(self) -> bool:
        """True if nothing more is to come from it."""
        return self.state in (HostState.ENDED, HostState.LOST)

    def lose(self, problem: HostProblem) -> None:
        """Notes that it cannot be used any more."""
        self.state, self.problem = HostState.LOST, problem

    def connect_again(self, link: HostLink) -> None:
        """Begins anew with another connection."""
        if self.link is not None:
            self.link.close()
        self.link, self.since, self.state = link, time.monotonic(), HostState.CONNECTING
        self.facts = self.problem = self.code = self.formed = None
        self.has_answered = False


class HostGroup:
    """The hosts of a launch; a context manager that ends all connections.

    Args:
        signals: What has come to this process; a first one ends what has not started yet.
    """

    def __init__(self, hosts: Sequence[Host], signals: Signals) -> None:
        self.hosts = [LaunchHost(host) for host in hosts]
        self._signals = signals
        self._signed = time.monotonic()

    def __enter__(self) -> HostGroup:
        return self

    def __exit__(self, *_: object) -> None:
        # All at once, so that hosts stop at the same time.
        links = [host.link for host in self.hosts if host.link is not None]
        for link in links:
            link.hang_up()
        for link in links:
            link.close()

    def connect(self, connect: Connect, explain: Explain, seconds: float) -> dict[str, HostProblem]:
        """Connects to all hosts and waits for what they have found.

        Args:
            seconds: How long each may take to answer.

        Returns:
            Host -> what is wrong with it; nothing where all can start.

        Raises:
            LauncherStopped: A signal has come.
        """
        while not all(host.is_over or host.state is HostState.CHECKED for host in self.hosts):
            self._signals.check()
            busy = sum(host.state is HostState.CONNECTING for host in self.hosts)
            waiting = [host for host in self.hosts if host.state is HostState.WAITING]
            for host in waiting[: AT_ONCE - busy]:
                host.link, host.since, host.state = connect(host.host), time.monotonic(), HostState.CONNECTING
            for host, heard in self.hear():
                self.take_answer(host, heard)
                self.check_connection(host, explain, seconds)
        return {host.host.name: host.problem for host in self.hosts if host.problem is not None}

    def hear(self) -> list[tuple[LaunchHost, Heard]]:
        """Waits a moment, shows all hosts that this one is there, and returns what has come from each."""
        linked = [(host, host.link) for host in self.hosts if host.link is not None]
        ready = _ready([self._signals, *(source for _, link in linked for source in link.sources())], _PAUSE)
        self._signals.drain()
        is_due = time.monotonic() - self._signed > SIGN_SECONDS
        self._signed = time.monotonic() if is_due else self._signed
        for _, link in linked:
            link.send(b"\n" if is_due else b"")
        # Of many hosts most are silent at any time.
        return [(host, link.hear(ready)) for host, link in linked]

    def tell(self, **said: object) -> None:
        """Tells all hosts that run something."""
        for host in self.hosts:
            if host.state is HostState.RUNNING and host.link is not None:
                host.link.send(message(**said))

    def start(self, host: LaunchHost, **order: object) -> None:
        """Tells a host that was checked to start."""
        assert host.link is not None
        host.link.send(message(start=order))
        host.state = HostState.RUNNING

    @staticmethod
    def take_answer(host: LaunchHost, heard: Heard) -> None:
        """Takes what a host that is being connected to has found, or refuses for."""
        for said in heard.answers:
            if "here" in said and host.state is HostState.CONNECTING and not host.has_answered:
                host.has_answered, host.since = True, time.monotonic()
            elif "refused" in said:
                host.lose(problem_of(said["refused"]))
            elif "checked" in said and host.state is HostState.CONNECTING:
                try:
                    host.facts, host.state = HostFacts.of(said["checked"]), HostState.CHECKED
                except ValueError as error:
                    what = f"answers in another way ({error})"
                    host.lose(HostProblem(what, "Install the same version on every host"))

    @staticmethod
    def check_connection(host: LaunchHost, explain: Explain, seconds: float) -> None:
        """Loses a host that has not started, and whose connection has ended or takes too long."""
        if host.is_over or host.link is None:
            return
        code = host.link.poll()
        bound = CHECK_SECONDS if host.has_answered else seconds
        is_late = host.state is HostState.CONNECTING and time.monotonic() - host.since > bound
        if code is None and is_late and host.has_answered:
            what = f"has answered, and has not said within {CHECK_SECONDS:g} s whether it can start"
            host.lose(HostProblem(what, "See there what does not answer: a disk, or a driver of GPUs (nvidia-smi)"))
        elif code is not None or is_late:
            host.lose(explain(host.host, host.link, code))


def _ready(sources: Sequence[Source], seconds: float) -> frozenset[int]:
    """The descriptors of those that are ready, as soon as one is, or after so many seconds."""
    poller = select.poll()
    for source in sources:
        poller.register(source.fileno(), select.POLLIN)
    return frozenset(descriptor for descriptor, _ in poller.poll(seconds * 1000))


def problem_of(refused: object) -> HostProblem:
    """Returns what a host has refused for."""
    said = refused if isinstance(refused, dict) else {}
    what, code = said.get("what"), said.get("code")
    text = what.rstrip(".") if isinstance(what, str) and what else "has refused without a word"
    known = (UsageError.exit_code, FormingError.exit_code)
    return HostProblem(text, code=code if code in known and isinstance(code, int) else FormingError.exit_code)
