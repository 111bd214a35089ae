"""Connector: dials the address of one worker until the launcher or doctor there has introduced itself; never blocks."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Generic

from tfdist.cluster.cluster_spec import Address
from tfdist.net.connection_attempts import (
    DialOutcome,
    DialStatus,
    Lookup,
    Resolver,
    begin_connecting,
    finish_connecting,
    look_up,
    of_errno,
    of_first_bytes,
)
from tfdist.net.handshake import ONE_TOKEN, CallerSide, HelloT, Introduction, Reply
from tfdist.net.line_socket import MAX_HELLO_BYTES, LineError, LineSocket

CONNECT_SECONDS = 3.0
_RETRY_SECONDS = 0.2
_PEEKED_BYTES = 64
_DRAINED_BYTES = 1 << 16


class Connector(Generic[HelloT]):
    """Attempts to meet the process that speaks for one worker.

    Args:
        address: Where that process listens.
        link: Whether to keep the connection once the other has answered.

    Attributes:
        seen: The last outcome; of a host with several addresses, at the one that led farthest. That somebody had
            another token stands until somebody else answers.
        met: Who answered; None while nobody has.
        mismatch: Why that process cannot take part: it has a token, and this one has none. None while nothing is known
            to be wrong, and on a network that is not trusted.
        line: The connection, while there is one.
        peer: The IP address that was dialled last; empty before the first.
    """

    def __init__(
        self,
        index: int,
        address: Address,
        introduction: Introduction[HelloT],
        *,
        link: bool,
        clock: Callable[[], float],
        resolver: Resolver = look_up,
    ) -> None:
        self.index = index
        self.address = address
        self.seen = DialOutcome(DialStatus.NOT_TRIED)
        self.met: HelloT | None = None
        self.mismatch: str | None = None
        self.line: LineSocket | None = None
        self.peer = ""
        self._introduction = introduction
        self._link = link
        self._clock = clock
        self._lookup = Lookup(address, clock, resolver)
        self._targets: list[Any] = []
        self._connecting: socket.socket | None = None
        self._side: CallerSide[HelloT] | None = None
        self._heard = False
        self._best: DialOutcome | None = None
        self._deadline = 0.0
        self._next_try = 0.0

    @property
    def understood(self) -> LineSocket | None:
        """The line, if the other side takes what is said on it now."""
        return self.line if self._introduction.token is None or self.met is not None else None

    @property
    def is_idle(self) -> bool:
        """True if no attempt is under way, and nobody was met."""
        is_dialling = self._connecting is not None or bool(self._targets) or self._lookup.is_running
        return self.line is None and self.met is None and not is_dialling

    @property
    def is_due(self) -> bool:
        """True if `step` begins an attempt, where none is under way."""
        return self._clock() >= self._next_try

    def hurry(self) -> None:
        """Makes the next attempt due at once: somebody is known to listen there now."""
        self._next_try = self._clock()

    def waiting_for(self) -> tuple[list[LineSocket], list[Any]]:
        """Returns what must become readable, and what writable, before `step` gets on."""
        return [self.line] if self.line else [], [self._connecting] if self._connecting else []

    def step(self) -> None:
        """Gets on as far as is possible without waiting; `met` and `seen` tell how far that is."""
        if self.met is not None or self.mismatch is not None:
            return
        if self.line is not None:
            self._listen(self.line)
        elif self._connecting is not None:
            self._finish_connecting(self._connecting)
        elif self._targets:
            self._connect()
        elif self._clock() >= self._next_try:
            self._look_up()

    def lose(self, seen: DialStatus = DialStatus.LEFT) -> None:
        """Hangs up on a process that was met, because of what was seen, and begins anew."""
        self._give_up(DialOutcome(seen))
        self.met = None

    def close(self) -> None:
        """Ends every attempt; a kept line is closed too."""
        if self._connecting is not None:
            self._connecting.close()
            self._connecting = None
        if self.line is not None:
            self.line.close()
            self.line = None

    def _give_up(self, seen: DialOutcome) -> None:
        self.close()
        if self._best is None or seen.status >= self._best.status:
            self._best = seen
        # Until every address has been tried, what was seen before stands, so that the two do not alternate. Who had
        # another token, and has gone, has most likely given up over that.
        has_left = self.seen.status is DialStatus.MISMATCHED and self._best.status < DialStatus.STRANGER
        if not has_left and (not self._targets or self._best.status >= self.seen.status):
            self.seen = self._best
        self._next_try = self._clock() + _RETRY_SECONDS

    def _look_up(self) -> None:
        targets = self._lookup.targets()
        if targets is None:
            if self.seen.status is DialStatus.NOT_TRIED:
                self.seen = DialOutcome(DialStatus.RESOLVING)
            return
        self._targets = targets
        self._best = None
        if not targets:
            self._give_up(DialOutcome(DialStatus.UNRESOLVED))
        else:
            self._connect()

    def _connect(self) -> None:
        if self.seen.status < DialStatus.CONNECTING:
            self.seen = DialOutcome(DialStatus.CONNECTING)
        target = self._targets.pop(0)
        self.peer = str(target[-1][0])
        self._connecting, code = begin_connecting(target)
        self._deadline = self._clock() + CONNECT_SECONDS
        if code:
            self._give_up(of_errno(code))

    def _finish_connecting(self, connection: socket.socket) -> None:
        code = finish_connecting(connection)
        if code is None:
            if self._clock() > self._deadline:
                self._give_up(DialOutcome(DialStatus.TIMED_OUT))
            return
        if code:
            self._give_up(of_errno(code))
            return
        self._connecting = None
        self.line = LineSocket(connection, MAX_HELLO_BYTES)
        self._side = CallerSide(self._introduction, link=self._link)
        self._heard = False
        if self._side.opening is not None:
            self.line.send(self._side.opening)
        self._deadline = self._clock() + self._introduction.seconds

    def _listen(self, line: LineSocket) -> None:
        if not self._heard:
            data = _first_bytes(line)
            if data is None:
                if self._clock() > self._deadline:
                    self._give_up(DialOutcome(DialStatus.SILENT))
                return
            if data and not data.startswith(b"{"):
                self._give_up(of_first_bytes(data))
                return
            self._heard = bool(data)
        self._hear(line)

    def _hear(self, line: LineSocket) -> None:
        assert self._side is not None
        try:
            messages = line.receive(1)
            reply = self._side.hear(messages[0]) if messages else None
        except LineError:
            self._give_up(DialOutcome(DialStatus.STRANGER))
            return
        if reply is not None:
            self._take_in(line, reply)
        elif line.is_closed():
            self._give_up(DialOutcome(DialStatus.CLOSED))
        elif self._clock() > self._deadline:
            self._give_up(DialOutcome(DialStatus.SILENT))

    def _take_in(self, line: LineSocket, reply: Reply[HelloT]) -> None:
        if reply.say is not None:
            line.send(reply.say)
        if reply.mismatch is not None and self._introduction.token is not None:
            # Who has no proof may be anybody, and its word must not end a run: the real one may come yet.
            self._give_up(DialOutcome(DialStatus.MISMATCHED, reply.mismatch))
        elif reply.mismatch is not None:
            speaker = self._introduction.hello.speaker
            self.mismatch = f"the {speaker} of worker {self.index} ({self.address}) {reply.mismatch}. {ONE_TOKEN}"
            self.close()
        elif reply.met is not None:
            self.met = reply.met.hello
            self.seen = DialOutcome(DialStatus.MET)
            self._targets.clear()
            if self._link:
                self._introduction.keep(line, reply.met, "caller")
            else:
                self.close()


def _first_bytes(line: LineSocket) -> bytes | None:
    """Returns what has come first, left to be read if it may be JSON; otherwise it shows which kind of server that is.

    None if nothing has come yet; empty if the other side is gone.
    """
    try:
        data = line.connection.recv(_PEEKED_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
    if data and not data.startswith(b"{"):
        # Taken after all: hanging up on unread bytes would reset the connection of whoever sent them.
        with contextlib.suppress(OSError):
            line.connection.recv(_DRAINED_BYTES)
    return data
