"""Dials another launcher at one worker's address until it answers; never blocks."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from tfdist.cluster.cluster_spec import Address
from tfdist.net.connection_attempts import Lookup, begin_connecting, finish_connecting
from tfdist.net.hello import Hello
from tfdist.net.introduction import ONE_TOKEN, Call, Reply, keep
from tfdist.net.line_socket import LineError, LineSocket
from tfdist.net.shared_token import Token
from tfdist.net.sighting import (
    LEFT,
    NOT_TRIED,
    REFUSED,
    RESOLVING,
    STRANGER,
    UNRESOLVED,
    Sighting,
    says_nothing,
    timed_out,
    unreachable,
)

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
_RETRY_SECONDS = 0.2


class Dial:
    """Attempts to meet the launcher of one worker.

    Args:
        index: The worker.
        address: Where its launcher listens while the cluster forms.
        hello: This launcher's hello.
        link: Whether to keep the connection once the other has answered.
        clock: Seconds, never going back.
        token: The job's secret; a launcher that cannot prove that it has it is not met.

    Attributes:
        seen: What was seen there last; of a host with several addresses, at the one that led farthest.
        met: Who answered; None while nobody has.
        mismatch: Why that launcher cannot take part, because of its token; None while nothing is known to be wrong.
        line: The connection, while there is one.
    """

    def __init__(
        self,
        index: int,
        address: Address,
        hello: Hello,
        *,
        link: bool,
        clock: Callable[[], float],
        token: Token | None = None,
    ) -> None:
        self.index = index
        self.address = address
        self.seen = NOT_TRIED
        self.met: Hello | None = None
        self.mismatch: str | None = None
        self.line: LineSocket | None = None
        self._hello = hello
        self._link = link
        self._clock = clock
        self._token = token
        self._lookup = Lookup(address, clock)
        self._targets: list[Any] = []
        self._connecting: socket.socket | None = None
        self._call: Call | None = None
        self._best: Sighting | None = None
        self._deadline = 0.0
        self._next_try = 0.0

    @property
    def understood(self) -> LineSocket | None:
        """The line, if the other side takes what is said on it now."""
        return self.line if self._token is None or self.met is not None else None

    def waiting_for(self) -> tuple[list[LineSocket], list[socket.socket]]:
        """What must become readable, and what writable, before `step` gets on."""
        return [self.line] if self.line else [], [self._connecting] if self._connecting else []

    def step(self) -> None:
        """Gets on as far as is possible without waiting; `met` and `seen` tell how far that is."""
        if self.met is not None or self.mismatch is not None:
            return
        if self.line is not None:
            self._hear_answer(self.line)
        elif self._connecting is not None:
            self._finish_connecting(self._connecting)
        elif self._targets:
            self._connect()
        elif self._clock() >= self._next_try:
            self._look_up()

    def lose(self) -> None:
        """Forgets a launcher that has left, and begins anew."""
        self._give_up(LEFT)
        self.met = None

    def close(self) -> None:
        """Ends every attempt; a kept line is closed too."""
        if self._connecting is not None:
            self._connecting.close()
            self._connecting = None
        if self.line is not None:
            self.line.close()
            self.line = None

    def _give_up(self, seen: Sighting) -> None:
        self.close()
        if self._best is None or seen.depth >= self._best.depth:
            self._best = seen
        # Until every address has been tried, what was seen before stands, so that the two do not alternate.
        if not self._targets or self._best.depth >= self.seen.depth:
            self.seen = self._best
        self._next_try = self._clock() + _RETRY_SECONDS

    def _look_up(self) -> None:
        targets = self._lookup.targets()
        if targets is None:
            self.seen = RESOLVING if self.seen == NOT_TRIED else self.seen
            return
        self._targets = targets
        self._best = None
        if not targets:
            self._give_up(UNRESOLVED)
        else:
            self._connect()

    def _connect(self) -> None:
        self._connecting, code = begin_connecting(self._targets.pop(0))
        self._deadline = self._clock() + CONNECT_SECONDS
        if code:
            self._give_up(unreachable(code, CONNECT_SECONDS))

    def _finish_connecting(self, connection: socket.socket) -> None:
        code = finish_connecting(connection)
        if code is None:
            if self._clock() > self._deadline:
                self._give_up(timed_out(CONNECT_SECONDS))
            return
        if code:
            self._give_up(unreachable(code, CONNECT_SECONDS))
            return
        self._connecting = None
        self.line = LineSocket(connection)
        self._call = Call(self._hello, self._token, link=self._link)
        self.line.send(self._call.opening)
        self._deadline = self._clock() + ANSWER_SECONDS

    def _hear_answer(self, line: LineSocket) -> None:
        assert self._call is not None
        try:
            messages = line.receive(1)
            reply = self._call.hear(messages[0]) if messages else None
        except LineError:
            self._give_up(STRANGER)
            return
        if reply is not None:
            self._take_in(line, reply)
        elif line.is_closed():
            self._give_up(REFUSED)
        elif self._clock() > self._deadline:
            self._give_up(says_nothing(ANSWER_SECONDS))

    def _take_in(self, line: LineSocket, reply: Reply) -> None:
        if reply.say is not None:
            line.send(reply.say)
        if reply.mismatch is not None:
            self.mismatch = f"the launcher of worker {self.index} ({self.address}) {reply.mismatch}. {ONE_TOKEN}"
            self.close()
        elif reply.met is not None:
            self.met = reply.met.hello
            self._targets.clear()
            if self._link:
                keep(line, self._token, reply.met, "caller")
            else:
                self.close()
