"""Links between the launchers of one job: a star around the launcher that has the chief.

Each says now and then that it runs, and one that does not for too long is given up: a process that is stopped, or whose
machine hangs, keeps its connections, as the kernel answers for it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tfdist.errors import RunDirError
from tfdist.launch.peers.messages import AttemptEnded, Event, Released, from_message, outlives_attempt, to_message
from tfdist.launch.peers.root_cause import is_consequence, root_cause_first
from tfdist.net.bounded_wait import ReadySet, Source, wait_for
from tfdist.net.line_socket import LineError, LineSocket, Message, encode
from tfdist.rundir.failure import Failure
from tfdist.rundir.json_record import is_finite

SAY_SECONDS = 5.0
"""Between two times that a launcher says that it runs."""

MOST_SECONDS = 120.0
"""Seconds that another launcher may be silent. It is busy with nothing else for so long: a disk has 30 s to answer."""

_LOOK_SECONDS = 1.0
"""Seconds that one look adds to a silence at most: what this process missed while it was stopped is no silence."""

Link = TypeVar("Link")
# The kernel finds a machine that vanished without a word: silent for 10 s, then 4 probes 5 s apart.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))
_UNACKNOWLEDGED_MILLISECONDS = 30_000
_TICK_SECONDS = 0.1
_MOST_SHARED = 16
"""Failures that the leader tells all: of a job of hundreds, the first ones tell as much as all."""
_CLOCKS_AGREE_SECONDS = 2.0
"""Difference of two clocks that the way of a message may make."""
_SENT = "sent"
_RUNS = "runs"


class Silence(Generic[Link]):
    """The length of the silence on each of some links, by the time that this process has looked.

    Args:
        links: The links, which have all just been heard.
    """

    def __init__(self, links: Iterable[Link], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = clock()
        self._watched = 0.0
        self._heard = dict.fromkeys(links, 0.0)
        self._said = self._looked

    def is_time_to_speak(self) -> bool:
        """Returns whether this launcher is to say that it runs; asked again, it is not for a while."""
        now = self._clock()
        if now - self._said < SAY_SECONDS:
            return False
        self._said = now
        return True

    def hear(self, link: Link) -> None:
        """Something has come by a link."""
        self._heard[link] = self._watched

    def hear_all(self) -> None:
        """From now on the silence of each link counts anew."""
        self._looked = self._clock()
        self._heard = dict.fromkeys(self._heard, self._watched)

    def look(self) -> list[Link]:
        """The links that have been silent for too long; to be asked after what has come was heard."""
        now = self._clock()
        self._watched += min(now - self._looked, _LOOK_SECONDS)
        self._looked = now
        return [link for link, heard in self._heard.items() if self._watched - heard > MOST_SECONDS]


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

    def fileno(self) -> int:
        return self.line.fileno()

    def lost(self) -> Failure:
        """The failure of a launcher that is gone."""
        return lost_launcher(self.host, self.workers, self.addresses[0])

    def silent(self) -> Failure:
        """The failure of a launcher that has said nothing for too long."""
        names = ", ".join(map(str, self.workers))
        message = (
            f"the launcher of worker(s) {names} has not answered for {MOST_SECONDS:.0f} s: it is stopped "
            f"(SIGSTOP or Ctrl-Z), or {self.host} hangs or is out of memory"
        )
        return Failure(self.workers[0], self.host, time.time(), "lost", message, address=self.addresses[0])


def lost_launcher(host: str, workers: Sequence[int], address: str) -> Failure:
    """The failure of a launcher that is gone.

    Args:
        address: The host:port of the first of them.
    """
    names = ", ".join(map(str, workers))
    here = socket.gethostname()
    elsewhere = "" if host == here else f", or its machine or the network between {here} and {host} failed"
    message = f"the launcher of worker(s) {names} is gone: it was killed{elsewhere}"
    return Failure(workers[0], host, time.time(), "lost", message, address=address)


class PeerLinks:
    """The coordinator of a job of several launchers."""

    def __init__(self, links: Sequence[PeerLink], *, leads: bool, remote: tuple[int, ...]) -> None:
        self.leads = leads
        self.remote = remote
        self._links = list(links)
        self._over = False
        self._gone: set[PeerLink] = set()
        self._settled: dict[PeerLink, list[Failure]] = {}
        self._kept: list[Event] = []
        self._ready = ReadySet[PeerLink]()
        for link in self._links:
            self._ready.add(link)
        # What came together with the last word of the forming was read with that.
        self._unheard = list(self._links)
        self._unsent: set[PeerLink] = set()
        self._silence = Silence(self._links)
        self._ends_passed_on: set[bool] = set()

    @property
    def lines(self) -> list[LineSocket]:
        """The lines that are open."""
        return [link.line for link in self._links if not link.line.is_closed()]

    def sockets(self) -> Sequence[Source]:
        return [self._ready] if len(self._ready) else []

    def is_connected(self) -> bool:
        return bool(len(self._ready))

    def events(self) -> list[Event]:
        events, self._kept = self._kept, []
        speaking, self._unheard = dict.fromkeys([*self._unheard, *self._ready.ready(), *self._unsent]), []
        for link in speaking:
            if link in self._gone:
                continue
            self._flush(link)
            heard = self._hear(link)
            # After the release, or once the attempt ends, the others hang up when they are done.
            self._over = self._over or any(isinstance(event, Released | AttemptEnded) for event in heard)
            if link.line.is_closed():
                self._forget(link)
                if not self._over:
                    heard.append(AttemptEnded((link.lost(),)))
            if self.leads:
                self._pass_on(link, heard)
            events += heard
        return events + self._mind_silence()

    def tell(self, event: Event) -> None:
        self._over = self._over or isinstance(event, Released | AttemptEnded)
        if isinstance(event, AttemptEnded):
            self._ends_passed_on.add(event.stop is not None)
            event = replace(event, failures=event.failures[:_MOST_SHARED])
        self._send(to_message(event), self._links)

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        deadline = time.monotonic() + timeout
        self._over = True
        if not self.leads:
            self._send_settled(failures)
        while len(self._settled.keys() | self._gone) < len(self._links) and time.monotonic() < deadline:
            wait_for(self.sockets(), min(_TICK_SECONDS, deadline - time.monotonic()))
            self._kept = [event for event in self.events() if outlives_attempt(event)]
        known = [failure for settled in self._settled.values() for failure in settled]
        # A follower whose workers' collective broke off, and that hears nothing of the leader, has lost it.
        if self.leads or all(map(is_consequence, [*failures, *known])):
            known += [link.lost() for link in self._links if link not in self._settled]
        all_failures = root_cause_first([*failures, *known])
        if self.leads:
            self._send_settled(all_failures[:_MOST_SHARED])
        return all_failures

    def keep(self, events: Sequence[Event]) -> None:
        self._kept = [*events, *self._kept]

    def begin_again(self) -> None:
        self._over = False
        self._settled.clear()
        self._ends_passed_on.clear()
        self._silence.hear_all()
        self._kept += [AttemptEnded((link.lost(),)) for link in self._links if link in self._gone]

    def close(self) -> None:
        for link in self._links:
            link.line.flush()
            link.line.close()
        self._ready.close()

    def _mind_silence(self) -> list[Event]:
        """Says now and then that this launcher runs; hangs up on those that have not said so for too long."""
        if self._silence.is_time_to_speak():
            self._send({_RUNS: True}, self._links)
        events: list[Event] = []
        for link in self._silence.look():
            # Between two attempts a launcher may be busy, and does not read what comes.
            if link not in self._gone and not self._over:
                event = AttemptEnded((link.silent(),))
                self._forget(link)
                # It learns of this when it runs again, and ends.
                link.line.close()
                if self.leads:
                    self._pass_on(link, [event])
                events.append(event)
        return events

    def _forget(self, link: PeerLink) -> None:
        self._gone.add(link)
        self._ready.discard(link)
        self._unsent.discard(link)

    def _hear(self, link: PeerLink) -> list[Event]:
        events: list[Event] = []
        try:
            for message in link.line.receive():
                self._silence.hear(link)
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
        """Tells the others that the attempt ends, once: when many fail together, each of them says so.

        A stop is told even after a failure, as it holds for the next attempt, too. The failures of all are joined by
        `settle`.
        """
        for event in events:
            if isinstance(event, AttemptEnded) and (event.stop is not None) not in self._ends_passed_on:
                self._ends_passed_on.add(event.stop is not None)
                self._send(to_message(event), [link for link in self._links if link is not source])

    def _send_settled(self, failures: Sequence[Failure]) -> None:
        self._send({"settle": [failure.to_dict() for failure in root_cause_first(failures)]}, self._links)

    def _send(self, message: Message, links: Iterable[PeerLink]) -> None:
        body = encode(_stamped(message))
        for link in links:
            link.line.send_encoded(body)
            self._note_unsent(link)

    def _flush(self, link: PeerLink) -> None:
        if link in self._unsent:
            link.line.flush()
            self._note_unsent(link)

    def _note_unsent(self, link: PeerLink) -> None:
        """Waits for room on a line that has not taken all yet."""
        if link.line.has_unsent != (link in self._unsent):
            (self._unsent.add if link.line.has_unsent else self._unsent.discard)(link)
            self._ready.wait_to_write(link, link.line.has_unsent)


def _stamped(message: Message) -> Message:
    """A message with the time by this machine's clock."""
    return {**message, _SENT: time.time()}


def _by_own_clock(failures: Iterable[Failure], sent: Any) -> list[Failure]:
    """The failures by this machine's clock: which was first must not depend on how clocks are set."""
    if not is_finite(sent):
        raise LineError("failures without the time at which they were sent")
    ahead = sent - time.time()
    if abs(ahead) < _CLOCKS_AGREE_SECONDS:
        return list(failures)
    return [replace(failure, time=failure.time - ahead) for failure in failures]
