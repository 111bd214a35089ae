"""Starting again: lost hosts of an elastic run come back one by one, and all of them where that of the chief was lost.

Without the chief no worker goes on, and all launchers end by themselves. Then all hosts are connected to again, and as
soon as the chief's is there, the same command starts everywhere and resumes; who is not there yet follows. A host that
returns is connected to and checked, until its part can start.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tfdist.multihost.launching.host_group import AT_ONCE, Connect, Explain, HostGroup, HostState, LaunchHost
from tfdist.multihost.launching.host_link import Heard
from tfdist.multihost.launching.output_display import OutputDisplay

FIRST_SECONDS = 5.0
MOST_SECONDS = 60.0
"""Seconds from one attempt to the next one, at first and at most; each waits twice as long as the one before."""
COMING = frozenset({HostState.CONNECTING, HostState.CHECKED})
"""The states of a host that has yet to start its part."""
ALONE_SECONDS = 60.0
"""Seconds for the others to go on without the chief's host, before they are told to stop; half a minute is promised."""
CUT_OFF_SECONDS = 45.0
"""After which a host comes back that has lost the chief's: by then ssh has noticed, too, where the chief's is gone."""
_MEANT = frozenset(128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
"""The exit codes of a launcher that somebody has told to stop."""
_LOST_LAUNCHER = frozenset({3, 4})
"""The exit codes of a launcher that has lost the others: it has not reached the chief's, or that is gone."""


@dataclass(frozen=True)
class ElasticLaunch:
    """The options of an elastic run that concern the launch.

    Attributes:
        run_dir: The run directory, the same in every start.
        arguments_again: The arguments of `tfdist train` in every start but the first, as `HostLaunch.arguments`.
        rejoin_timeout: Seconds that the host with the chief is waited for.
        restarts: How often all hosts start again without progress between.
    """

    run_dir: str
    arguments_again: tuple[str, ...]
    rejoin_timeout: float = 60.0
    restarts: int = 3


@dataclass(frozen=True)
class ChiefRestarts:
    """The restarts of a run whose chief's host was lost.

    Attributes:
        most: Restarts without progress that are allowed.
        used: Restarts since there was progress.
        best: The greatest step that the run has come to.
    """

    most: int
    used: int = 0
    best: int = 0

    def next(self, step: int) -> ChiefRestarts | None:
        """The same after one more restart; None where no further one is allowed.

        Args:
            step: How far the run is, as its directory tells.
        """
        used = 0 if step > self.best else self.used
        if used >= self.most:
            return None
        return replace(self, used=used + 1, best=max(step, self.best))


@dataclass
class _Attempt:
    due: float
    wait: float = FIRST_SECONDS


class HostReturns:
    """The hosts that are to come back.

    Args:
        connect: Starts a connection, and tells the host what to check.
        seconds: How long a host may take to connect.
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


def was_killed(host: LaunchHost) -> bool:
    """Returns whether a host, or the launcher there, was lost, which nobody has asked for."""
    return host.state is HostState.LOST or (host.code is not None and host.code > 128 and host.code not in _MEANT)


class StartAgain:
    """Decides when which hosts of an elastic run start again.

    Args:
        returns: Connects to lost hosts.
        order: What a host is told to start.
    """

    def __init__(
        self,
        returns: HostReturns,
        options: ElasticLaunch,
        order: dict[str, object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.returns = returns
        self._options = options
        self._order = order
        self._clock = clock
        self._restarts = ChiefRestarts(options.restarts)
        self._lost_since: float | None = None
        self._give_up_at: float | None = None

    @property
    def is_without_chief(self) -> bool:
        """True if the chief's host is lost, and all are to start again."""
        return self._lost_since is not None

    @property
    def may_lose_chief(self) -> bool:
        """True if all may start again where the chief's host is lost."""
        return self._options.restarts > 0

    def lose_chief(self) -> None:
        """Notes that the chief's host is lost."""
        self._lost_since, self._give_up_at = self._clock(), None

    def lose(self, host: LaunchHost, *, has_lost_chief: bool = False) -> None:
        """Notes that another host is over, and has it come back where nobody has ended it there.

        Args:
            has_lost_chief: Whether it has ended because it has lost the chief's launcher.
        """
        if was_killed(host) or host.code in _LOST_LAUNCHER:
            self.returns.expect(host, CUT_OFF_SECONDS if has_lost_chief else FIRST_SECONDS)

    def is_too_late(self) -> bool:
        """Returns whether hosts that run should have ended without the chief's."""
        return self._lost_since is not None and self._clock() > self._lost_since + ALONE_SECONDS

    def step(self, hosts: list[LaunchHost], display: OutputDisplay) -> str:
        """Connects to hosts that are to come back, and starts those that can; returns why all is over, or nothing."""
        self.returns.step()
        if self._lost_since is None:
            for host in self.returns.ready():
                self._start(host, display)
                display.say(f"{host.host.name} is there again: its part of the run starts anew")
            return ""
        if any(host.state is HostState.RUNNING for host in hosts):
            return ""
        if self._give_up_at is None:
            self._give_up_at = self._clock() + self._options.rejoin_timeout
            for host in hosts:
                display.begin(host.host.name)
                if host.is_over:
                    self.returns.expect(host, after=0.0)
        chief = hosts[0]
        if chief.state is HostState.CHECKED and chief.facts is not None:
            return self._start_all(chief, chief.facts.step, display)
        if self._clock() < self._give_up_at:
            return ""
        return (
            f"error: {chief.host.name}, which has the chief, was lost, and is not back after "
            f"{self._options.rejoin_timeout:g} s (--rejoin-timeout). The run has ended on all hosts. {self._remedy()}"
        )

    def _start_all(self, chief: LaunchHost, step: int, display: OutputDisplay) -> str:
        restarts = self._restarts.next(step)
        if restarts is None:
            used = self._restarts.used
            after = f"after {used} restart{'' if used == 1 else 's'} without progress" if used else "once"
            return (
                f"error: {chief.host.name}, which has the chief, was lost {after} (--max-restarts "
                f"{self._options.restarts}). The run has ended on all hosts. {self._remedy()}"
            )
        self._restarts, self._lost_since = restarts, None
        count = f"restart {restarts.used} of {restarts.most}; progress resets the count"
        name = chief.host.name
        display.say(f"{name} is there again: the run starts anew on all hosts, after step {step:,} ({count})")
        for host in self.returns.ready():
            self._start(host, display)
        return ""

    def _start(self, host: LaunchHost, display: OutputDisplay) -> None:
        display.begin(host.host.name)
        self.returns.start(host, **self._order)

    def _remedy(self) -> str:
        return f"The same command with --resume auto --run-dir {self._options.run_dir} goes on where it was."
