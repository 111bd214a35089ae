"""Peer discovery: this launcher listens for the other launchers of the job and dials those of its dial plan.

Dialler: goes on dialling the launchers that were not met yet, a bounded number at a time.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.launch.rendezvous.followers import CHIEF, Follower, Followers, Overview, whom_to_dial
from tfdist.launch.rendezvous.hello_agreement import disagreement
from tfdist.launch.rendezvous.missing_workers import WaitingLauncher, absence_lines, explain_absence, waiting_text
from tfdist.net.connection_attempts import DialOutcome
from tfdist.net.connector import Connector
from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello
from tfdist.net.hello_listener import HelloListener
from tfdist.net.line_socket import LineSocket
from tfdist.net.shared_token import Token

MOST_AT_ONCE = 64
"""Attempts that are under way together."""

_PER_SECOND = 320.0
"""Attempts that are begun, at the addresses of workers whose launchers have not called: most of a large job come
late, and what is seen of them until then is worth a little time only."""

_BURST_SECONDS = 0.2


class Dialler:
    """Steps the connectors whose turn it is.

    Those of launchers that have called come first: they answer. The others take turns.

    Args:
        connectors: Worker -> how to meet its launcher.
    """

    def __init__(self, connectors: Mapping[int, Connector[Hello]], clock: Callable[[], float]) -> None:
        self._connectors = connectors
        self._clock = clock
        self._missing = set(connectors)
        self._queue = deque(sorted(connectors))
        self._active: dict[int, None] = {}
        self._called: set[int] = set()
        self._met: list[int] = []
        self._next_start = clock() - _BURST_SECONDS

    @property
    def has_met_all(self) -> bool:
        """True if nobody is missing."""
        return not self._missing

    def missing(self) -> dict[int, DialOutcome]:
        """Workers whose launchers have not been met, with what was seen of them."""
        return {index: self._connectors[index].seen for index in sorted(self._missing)}

    def newly_met(self) -> list[Connector[Hello]]:
        """Those that have met somebody since this was asked last."""
        met, self._met = self._met, []
        return [self._connectors[index] for index in met]

    def mismatch(self) -> str | None:
        """Returns why one of those that are being dialled cannot take part; None while nothing is known."""
        found = (self._connectors[index].mismatch for index in self._active)
        return next((mismatch for mismatch in found if mismatch is not None), None)

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        """Returns what must become readable, and what writable, before `step` gets on."""
        readable: list[Any] = []
        writable: list[Any] = []
        for index in self._active:
            reading, writing = self._connectors[index].waiting_for()
            readable += reading
            writable += writing
        return readable, writable

    def lines(self) -> list[LineSocket]:
        """The lines to those that are being dialled, and take what is said on them."""
        lines = (self._connectors[index].understood for index in self._active)
        return [line for line in lines if line is not None]

    def called(self, index: int) -> None:
        """The launcher of this worker has called: it is there, so that it is dialled next."""
        self._called.add(index)
        if index in self._queue:
            self._queue.remove(index)
            self._connectors[index].hurry()
            self._queue.appendleft(index)

    def lose(self, index: int) -> None:
        """The launcher of this worker, which was met, is gone, and is dialled anew."""
        self._connectors[index].lose()
        self._called.discard(index)
        if index not in self._missing:
            self._missing.add(index)
            self._queue.append(index)

    def step(self) -> None:
        """Gets on as far as is possible without waiting."""
        for index in list(self._active):
            self._step(index)
        self._begin()

    def _step(self, index: int) -> None:
        connector = self._connectors[index]
        connector.step()
        if connector.met is not None:
            del self._active[index]
            self._missing.discard(index)
            self._met.append(index)
        elif connector.is_idle and connector.mismatch is None:
            del self._active[index]
            self._queue.append(index)

    def _begin(self) -> None:
        now = self._clock()
        for _ in range(len(self._queue)):
            index = self._queue[0]
            if len(self._active) >= MOST_AT_ONCE or not self._connectors[index].is_due:
                return
            if index not in self._called:
                if now < self._next_start:
                    return
                self._next_start = max(self._next_start, now - _BURST_SECONDS) + 1 / _PER_SECOND
            self._queue.popleft()
            self._active[index] = None
            self._step(index)


class PeerDiscovery:
    """Meets other launchers of a job, each at the addresses of its workers.

    Args:
        membership: Which workers are started here. Their ports are held.
        token: The job's secret: only launchers that have it are met. None where the network is trusted.

    Attributes:
        cluster: All workers.
        leads: Whether the chief is started here.
        remote: Workers that other launchers start.
        hello: This launcher's.
        connectors: Of each worker that this launcher dials, the attempts to meet its launcher there.
        followers: The launchers that are on the line to this one, which is the chief's.
        overview: What the chief's launcher told last of who is here; None for that, and before it has.
    """

    def __init__(
        self, membership: Membership, cluster: Cluster, clock: Callable[[], float], token: Token | None
    ) -> None:
        self.cluster = cluster
        self.leads = membership.has_chief
        self.remote = membership.remote
        self.hello = Hello.own(cluster, membership.local)
        self.followers = Followers()
        self.overview: Overview | None = None
        introduction = Introduction(self.hello, token)
        ports = [cluster.workers[index].port for index in membership.local]
        self._listener = HelloListener(ports, introduction, clock, keeps=self.leads)
        self.connectors = {
            index: Connector(index, cluster.workers[index], introduction, link=index == CHIEF, clock=clock)
            for index in whom_to_dial(membership)
        }
        self._dialler = Dialler(self.connectors, clock)
        self._unchecked: list[Hello] = []
        self._came: dict[int, Hello] = {}

    def open(self) -> None:
        """Starts to listen.

        Raises:
            PortTakenError: It cannot.
        """
        self._listener.open()

    @property
    def has_met_all(self) -> bool:
        """True if this launcher has met all that it dials."""
        return self._dialler.has_met_all

    @property
    def _sees_all(self) -> bool:
        return len(self.connectors) == len(self.remote)

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        """Returns what must become readable, and what writable, before `step` gets on."""
        readable, writable = self._dialler.waiting_for()
        return [*self._listener.sources(), self.followers.source(), *self._chief_line(), *readable], writable

    def step(self) -> None:
        """Answers and dials, without waiting."""
        for caller in self._listener.step():
            self._unchecked.append(caller.hello)
            if caller.line is not None:
                self.followers.add(Follower(caller.hello, caller.line))
        self._dialler.step()

    def problem(self) -> str | None:
        """Returns why the launchers that were met cannot run one job; None while they can."""
        mismatch = self._listener.mismatch or self._dialler.mismatch()
        if mismatch is not None:
            return mismatch
        for hello in self._unchecked:
            problem = disagreement(self.hello, hello) or self._started_twice(hello)
            if problem is not None:
                return problem
            for index in hello.local:
                self._came[index] = hello
                self._dialler.called(index)
        self._unchecked.clear()
        for connector in self._dialler.newly_met():
            assert connector.met is not None
            problem = disagreement(self.hello, connector.met, connector.index)
            if problem is not None:
                return problem
        return None

    def forget(self, follower: Follower) -> None:
        """A launcher has left: its workers are missed again."""
        self.followers.remove(follower)
        for index in follower.hello.local:
            self._came.pop(index, None)
            self._dialler.lose(index)

    def lose_chief(self) -> None:
        """The chief's launcher has left, and is dialled anew."""
        self.overview = None
        self._dialler.lose(CHIEF)

    def missing(self) -> dict[int, DialOutcome]:
        """Workers that this launcher dials and has not met, with what was seen of them."""
        return self._dialler.missing()

    def waiting_text(self) -> str:
        """Who is here, and whom the launchers wait for."""
        if self.overview is not None and not self._sees_all:
            return self.overview.waiting
        others = [
            (follower.hello.host, index)
            for follower in self.followers
            for index in sorted(set(follower.missing or ()))
            if index in self.connectors
        ]
        return waiting_text(self.cluster, self.missing(), others, sees_all=self._sees_all)

    def own_overview(self) -> Overview:
        """Who is here, for those that dial fewer than this launcher, which is the chief's."""
        return Overview.clipped(self.hello.host, self.waiting_text(), len(self.missing()), self._absence_lines())

    def absence(self, timeout: float) -> str:
        """The error's text when not all have come in `timeout` seconds."""
        lines, missing = self._absence_lines(), self.missing()
        count = f"{len(missing)} of its {len(self.cluster)} workers did not come" if missing else "its launchers wait"
        told = self.overview
        if told is not None and not self._sees_all:
            count = f"{told.missing} of its {len(self.cluster)} workers did not come"
        elif not self._sees_all:
            count = f"{len(missing)} of the {len(self.connectors)} workers that this launcher dials did not come"
        # Where all workers are dialled here, and the chief's launcher misses some, it sees the same.
        if told is not None and not (self._sees_all and told.missing):
            lines += [f"  as {told.host}, the chief's host, knows it:", *told.lines]
        return explain_absence(self.cluster, lines, count, refused=self._listener.refused, timeout=timeout)

    def lines(self) -> list[LineSocket]:
        """The lines to all who can be told something now."""
        followers = (follower.line for follower in self.followers)
        return list(itertools.chain(followers, self._chief_line(), self._dialler.lines()))

    def close(self, *, formed: bool) -> None:
        """Stops listening and dialling; once the cluster has formed, the lines between the launchers stay."""
        self._listener.close()
        for index, connector in self.connectors.items():
            if not (formed and index == CHIEF):
                connector.close()
        self.followers.close(lines=not formed)

    def _absence_lines(self) -> list[str]:
        waiting = [
            WaitingLauncher(follower.hello.host, follower.hello.local, follower.missing or {})
            for follower in self.followers
        ]
        return absence_lines(
            self.cluster,
            self.missing(),
            came={index: hello.host for index, hello in self._came.items()},
            callers=waiting if self.leads else None,
            remote=self.remote,
        )

    def _chief_line(self) -> list[LineSocket]:
        """The line to the chief's launcher, once that was met."""
        chief = self.connectors.get(CHIEF)
        return [] if chief is None or chief.met is None or chief.line is None else [chief.line]

    def _started_twice(self, hello: Hello) -> str | None:
        follower = self.followers.with_same_worker(hello)
        if follower is None:
            return None
        twice = sorted(set(follower.hello.local) & set(hello.local))
        return (
            f"worker(s) {', '.join(map(str, twice))} are started twice: by the launchers on "
            f"{follower.hello.host} and on {hello.host}. Give each launcher its own --index"
        )
