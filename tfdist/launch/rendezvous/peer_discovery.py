"""Peer discovery: this launcher listens for the other launchers of the job and dials them until it has met all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.cluster.cluster_spec import Cluster
from tfdist.cluster.membership import Membership
from tfdist.launch.rendezvous.hello_agreement import disagreement
from tfdist.launch.rendezvous.missing_workers import WaitingLauncher, explain_absence, waiting_text
from tfdist.net.connector import Connector
from tfdist.net.dial_outcome import DialOutcome
from tfdist.net.handshake import Introduction
from tfdist.net.hello import Hello
from tfdist.net.line_socket import LineError, LineSocket
from tfdist.net.listener import Listener
from tfdist.net.shared_token import Token

CHIEF = 0


@dataclass(eq=False)
class Follower:
    """A launcher that is on the line to the chief's.

    Attributes:
        hello: Who it is.
        line: The line to it.
        missing: Workers that it has not met yet, with what it saw of them; None until it says so for the first time.
        abort: Why it gave up, as it said it; None while it has not.
        refusal: Why it cannot take part, in the same form; it stays until all are here, so that all hear of it.
        has_terms: Whether it was told what it has to agree with.
    """

    hello: Hello
    line: LineSocket
    missing: dict[int, str] | None = None
    abort: dict[str, Any] | None = None
    refusal: dict[str, Any] | None = None
    has_terms: bool = False

    def listen(self) -> bool:
        """Takes in what it says. Returns False when it is gone or is not understood."""
        try:
            for message in self.line.receive():
                if "missing" in message:
                    self.missing = {int(index): str(seen) for index, seen in message["missing"].items()}
                if isinstance(message.get("abort"), dict):
                    self.abort = message["abort"]
                if isinstance(message.get("refusal"), dict):
                    self.refusal = message["refusal"]
        except (LineError, AttributeError, ValueError, TypeError):
            self.line.close()
        return not self.line.is_closed()


class PeerDiscovery:
    """Meets the other launchers of a job, each at the addresses of its workers.

    Args:
        membership: Which workers are started here. Their ports are held.
        cluster: All workers.
        clock: Seconds, never going back.
        token: The job's secret: only launchers that have it are met. None where the network is trusted.

    Attributes:
        cluster: All workers.
        leads: Whether the chief is started here.
        remote: Workers that other launchers start.
        hello: This launcher's.
        connectors: Of the worker of another launcher, the attempts to meet that launcher there.
        followers: The launchers that are on the line to this one, which is the chief's.
    """

    def __init__(
        self, membership: Membership, cluster: Cluster, clock: Callable[[], float], token: Token | None
    ) -> None:
        self.cluster = cluster
        self.leads = membership.has_chief
        self.remote = membership.remote
        self.hello = Hello.own(cluster, membership.local)
        self.followers: list[Follower] = []
        introduction = Introduction(self.hello, token)
        ports = [cluster.workers[index].port for index in membership.local]
        self._listener = Listener(ports, introduction, clock, keeps=self.leads)
        self.connectors = {
            index: Connector(index, cluster.workers[index], introduction, link=index == CHIEF, clock=clock)
            for index in membership.remote
        }
        self._unchecked: list[Hello] = []
        self._came: dict[int, Hello] = {}

    def open(self) -> None:
        """Starts to listen.

        Raises:
            PortTakenError: It cannot.
        """
        self._listener.open()

    def waiting_for(self) -> tuple[list[Any], list[Any]]:
        """What must become readable, and what writable, before `step` gets on."""
        readable: list[Any] = [*self._listener.sources(), *(follower.line for follower in self.followers)]
        writable: list[Any] = []
        for connector in self.connectors.values():
            reading, writing = connector.waiting_for()
            readable += reading
            writable += writing
        return readable, writable

    def step(self) -> None:
        """Answers and dials, without waiting."""
        for caller in self._listener.step():
            self._unchecked.append(caller.hello)
            if caller.line is not None:
                self._add_follower(Follower(caller.hello, caller.line))
        for connector in self.connectors.values():
            connector.step()

    def problem(self) -> str | None:
        """Why the launchers that were met cannot run one job; None while they can."""
        mismatches = [self._listener.mismatch, *(connector.mismatch for connector in self.connectors.values())]
        mismatch = next((mismatch for mismatch in mismatches if mismatch is not None), None)
        if mismatch is not None:
            return mismatch
        for hello in self._unchecked:
            problem = disagreement(self.hello, hello) or self._started_twice(hello)
            if problem is not None:
                return problem
            self._came.update(dict.fromkeys(hello.local, hello))
        self._unchecked.clear()
        for connector in self.connectors.values():
            if connector.met is not None:
                problem = disagreement(self.hello, connector.met, connector.index)
                if problem is not None:
                    return problem
        return None

    def forget(self, follower: Follower) -> None:
        """A launcher has left: its workers are missed again."""
        for index in follower.hello.local:
            self._came.pop(index, None)
            self.connectors[index].lose()

    def missing(self) -> dict[int, DialOutcome]:
        """Workers whose launchers have not been met, with what was seen of them."""
        return {index: connector.seen for index, connector in self.connectors.items() if connector.met is None}

    def waiting_text(self) -> str:
        """Who is here, and whom the launchers wait for."""
        others = [
            (follower.hello.host, index)
            for follower in self.followers
            for index in sorted(set(follower.missing or ()) & set(self.remote))
        ]
        return waiting_text(self.cluster, self.missing(), others)

    def absence(self, timeout: float) -> str:
        """The error's text when not all have come in `timeout` seconds."""
        waiting = [
            WaitingLauncher(follower.hello.host, follower.hello.local, follower.missing or {})
            for follower in self.followers
        ]
        return explain_absence(
            self.cluster,
            self.missing(),
            came={index: hello.host for index, hello in self._came.items()},
            callers=waiting if self.leads else None,
            remote=self.remote,
            refused=self._listener.refused,
            timeout=timeout,
        )

    def lines(self) -> list[LineSocket]:
        """The lines to all who can be told something now."""
        dialled = (connector.understood for connector in self.connectors.values())
        lines = itertools.chain((follower.line for follower in self.followers), dialled)
        return [line for line in lines if line is not None]

    def close(self, *, formed: bool) -> None:
        """Stops listening and dialling; once the cluster has formed, the lines between the launchers stay."""
        self._listener.close()
        for index, connector in self.connectors.items():
            if not (formed and index == CHIEF):
                connector.close()
        if not formed:
            for follower in self.followers:
                follower.line.close()

    def _add_follower(self, follower: Follower) -> None:
        # A launcher that calls again has lost its first line.
        for earlier in [each for each in self.followers if each.hello.sender == follower.hello.sender]:
            earlier.line.close()
            self.followers.remove(earlier)
        self.followers.append(follower)

    def _started_twice(self, hello: Hello) -> str | None:
        for follower in self.followers:
            twice = sorted(set(follower.hello.local) & set(hello.local))
            if follower.hello.sender != hello.sender and twice and follower.listen():
                return (
                    f"worker(s) {', '.join(map(str, twice))} are started twice: by the launchers on "
                    f"{follower.hello.host} and on {hello.host}. Give each launcher its own --index"
                )
        return None
