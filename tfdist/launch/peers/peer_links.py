"""Links between the launchers of one job: a star around the launcher that has the chief."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.agent.first_failure import first_to_last, is_consequence
from tfdist.launch.peers.messages import AttemptEnded, Event, Released, from_message, outlives_attempt, to_message
from tfdist.net.bounded_wait import wait_for
from tfdist.net.line_socket import LineError, LineSocket, Message
from tfdist.rundir.failure import Failure
from tfdist.rundir.json_record import is_finite

# The kernel finds a machine that vanished without a word: silent for 10 s, then 4 probes 5 s apart.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))
_UNACKNOWLEDGED_MILLISECONDS = 30_000
_TICK_SECONDS = 0.1
_CLOCKS_AGREE_SECONDS = 2.0
"""Difference of two clocks that the way of a message may make."""
_SENT = "sent"


def keep_alive(connection: socket.socket) -> None:
    """Makes a connection whose other end has vanished fail here within half a minute."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MILLISECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@dataclass(frozen=True, eq=False)
class PeerLink:
    """The link to one other launcher.

    Attributes:
        line: The connection.
        host: That launcher's machine.
        workers: The workers that it starts.
        addresses: Their host:port, in the same order.
    """

    line: LineSocket
    host: str
    workers: tuple[int, ...]
    addresses: tuple[str, ...]

    def lost(self) -> Failure:
        """The failure of a launcher that is gone."""
        names = ", ".join(map(str, self.workers))
        return Failure(
            index=self.workers[0],
            host=self.host,
            address=self.addresses[0],
            time=time.time(),
            kind="lost",
            message=(
                f"the launcher of worker(s) {names} is gone: it was killed, or its machine or the network between "
                f"{socket.gethostname()} and {self.host} failed"
            ),
        )


class PeerLinks:
    """The coordinator of a job of several launchers.

    Args:
        links: For the leader, the links to all others; for the others, the one link to the leader.
        leads: Whether this launcher leads.
        remote: Workers that other launchers start.
    """

    def __init__(self, links: Sequence[PeerLink], *, leads: bool, remote: tuple[int, ...]) -> None:
        self.leads = leads
        self.remote = remote
        self._links = list(links)
        self._over = False
        self._gone: set[PeerLink] = set()
        self._settled: dict[PeerLink, list[Failure]] = {}
        self._kept: list[Event] = []

    def sockets(self) -> Sequence[LineSocket]:
        return [link.line for link in self._links if not link.line.is_closed()]

    def is_connected(self) -> bool:
        return bool(self.sockets())

    def events(self) -> list[Event]:
        events, self._kept = self._kept, []
        for link in self._links:
            if link in self._gone:
                continue
            link.line.flush()
            heard = self._hear(link)
            # After the release, or once the attempt ends, the others hang up when they are done.
            self._over = self._over or any(isinstance(event, Released | AttemptEnded) for event in heard)
            if link.line.is_closed():
                self._gone.add(link)
                if not self._over:
                    heard.append(AttemptEnded((link.lost(),)))
            if self.leads:
                self._pass_on(link, heard)
            events += heard
        return events

    def tell(self, event: Event) -> None:
        self._over = self._over or isinstance(event, Released | AttemptEnded)
        for link in self._links:
            link.line.send(_stamped(to_message(event)))

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        deadline = time.monotonic() + timeout
        self._over = True
        if not self.leads:
            self._send_settled(failures)
        while not self._all_settled() and time.monotonic() < deadline:
            wait_for(self.sockets(), min(_TICK_SECONDS, deadline - time.monotonic()))
            self._kept = [event for event in self.events() if outlives_attempt(event)]
        known = [failure for settled in self._settled.values() for failure in settled]
        # A follower whose workers' collective broke off, and that hears nothing of the leader, has lost it.
        if self.leads or all(map(is_consequence, [*failures, *known])):
            known += [link.lost() for link in self._links if link not in self._settled]
        all_failures = first_to_last([*failures, *known])
        if self.leads:
            self._send_settled(all_failures)
        return all_failures

    def keep(self, events: Sequence[Event]) -> None:
        self._kept = [*events, *self._kept]

    def begin_again(self) -> None:
        self._over = False
        self._settled.clear()
        self._kept += [AttemptEnded((link.lost(),)) for link in self._links if link in self._gone]

    def close(self) -> None:
        for link in self._links:
            link.line.flush()
            link.line.close()

    def _hear(self, link: PeerLink) -> list[Event]:
        events: list[Event] = []
        try:
            for message in link.line.receive():
                sent = message.pop(_SENT, None)
                if "settle" in message:
                    self._settled[link] = _by_own_clock(map(Failure.from_dict, message["settle"]), sent)
                elif (event := from_message(message)) is not None:
                    if isinstance(event, AttemptEnded):
                        event = replace(event, failures=tuple(_by_own_clock(event.failures, sent)))
                    events.append(event)
        except (LineError, RunDirError, TypeError):
            # A launcher that cannot be understood any more is as good as gone.
            link.line.close()
        return events

    def _pass_on(self, source: PeerLink, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, AttemptEnded):
                for link in self._links:
                    if link is not source:
                        link.line.send(_stamped(to_message(event)))

    def _all_settled(self) -> bool:
        return all(link in self._settled or link in self._gone for link in self._links)

    def _send_settled(self, failures: Sequence[Failure]) -> None:
        message = _stamped({"settle": [failure.to_dict() for failure in first_to_last(failures)]})
        for link in self._links:
            link.line.send(message)


def _stamped(message: Message) -> Message:
    """A message with the time by this machine's clock."""
    return {**message, _SENT: time.time()}


def _by_own_clock(failures: Iterable[Failure], sent: Any) -> list[Failure]:
    """The failures with their times by this machine's clock: which was first must not depend on how clocks are set.

    Args:
        failures: Those of a message.
        sent: When that was sent, by the clock of its sender.

    Raises:
        LineError: The message does not say when it was sent.
    """
    if not is_finite(sent):
        raise LineError("failures without the time at which they were sent")
    ahead = sent - time.time()
    if abs(ahead) < _CLOCKS_AGREE_SECONDS:
        return list(failures)
    return [replace(failure, time=failure.time - ahead) for failure in failures]
