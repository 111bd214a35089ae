"""Returns of hosts that an elastic run has lost: each is connected to again and checked, until its part can start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tfdist.multihost.launching.host_group import AT_ONCE, Connect, Explain, HostGroup, HostState, LaunchHost
from tfdist.multihost.launching.host_link import Heard

FIRST_SECONDS = 5.0
MOST_SECONDS = 60.0
"""Seconds from one attempt to the next one, at first and at most; each waits twice as long as the one before."""
COMING = frozenset({HostState.CONNECTING, HostState.CHECKED})
"""The states of a host that has yet to start its part."""


@dataclass
class _Attempt:
    due: float
    wait: float = FIRST_SECONDS


class HostReturns:
    """The hosts that are to come back.

    Args:
        group: All hosts of the launch.
        connect: Starts a connection, and tells the host what to check.
        explain: Says why a host has not answered.
        seconds: How long a host may take to connect.
        say: Tells the user what is in the way, once for each cause.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        group: HostGroup,
        connect: Connect,
        explain: Explain,
        seconds: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._group = group
        self._connect = connect
        self._explain = explain
        self._seconds = seconds
        self._say = say
        self._clock = clock
        self._attempts: dict[str, _Attempt] = {}
        self._said: dict[str, str] = {}

    def expect(self, host: LaunchHost, after: float = FIRST_SECONDS) -> None:
        """Tries to bring a host back that is over, from so many seconds on."""
        self._attempts[host.host.name] = _Attempt(self._clock() + after)

    def step(self) -> None:
        """Connects to those whose time has come."""
        busy = sum(host.state is HostState.CONNECTING for host in self._group.hosts)
        due = [host for host in self._group.hosts if host.is_over and self._is_due(host)]
        for host in due[: max(0, AT_ONCE - busy)]:
            host.connect_again(self._connect(host.host))

    def take(self, host: LaunchHost, heard: Heard) -> None:
        """Takes what a host has said that is coming back; one that cannot is tried again later."""
        self._group.take_answer(host, heard)
        self._group.check_connection(host, self._explain, self._seconds)
        if not host.is_over:
            return
        attempt = self._attempts[host.host.name]
        attempt.due, attempt.wait = self._clock() + attempt.wait, min(MOST_SECONDS, 2 * attempt.wait)
        what = "" if host.problem is None else host.problem.what
        if what != self._said.get(host.host.name):
            self._said[host.host.name] = what
            self._say(f"{host.host.name} {what}; it is tried again while the run lasts")

    def ready(self) -> list[LaunchHost]:
        """Those that have been checked, and can start."""
        return [host for host in self._group.hosts if host.state is HostState.CHECKED]

    def start(self, host: LaunchHost, **order: object) -> None:
        """Starts the part of a host that was checked."""
        self._attempts.pop(host.host.name, None)
        self._said.pop(host.host.name, None)
        self._group.start(host, **order)

    def _is_due(self, host: LaunchHost) -> bool:
        attempt = self._attempts.get(host.host.name)
        return attempt is not None and self._clock() >= attempt.due
