"""Hello listener: accepts connections on this process's worker ports and exchanges introductions; never blocks."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from tfdist.errors import PortTakenError
from tfdist.net.bounded_wait import ReadySet
from tfdist.net.handshake import ONE_TOKEN, AnswererSide, HelloT, Introduction, Met, Reply
from tfdist.net.line_socket import MAX_HELLO_BYTES, LineError, LineSocket
from tfdist.net.port_reservation import bind_reusable

MAX_STRANGERS = 256
_MAX_REFUSED = 4
_BACKLOG = 1024


@dataclass(frozen=True, eq=False)
class Caller(Generic[HelloT]):
    """A process that called and has introduced itself.

    Attributes:
        hello: Who it is.
        line: The line to it; None when it is not kept.
    """

    hello: HelloT
    line: LineSocket | None


@dataclass(eq=False)
class _Stranger(Generic[HelloT]):
    line: LineSocket
    host: str
    deadline: float
    side: AnswererSide[HelloT]

    def fileno(self) -> int:
        return self.line.fileno()


class HelloListener(Generic[HelloT]):
    """Listens on worker ports and introduces itself to whoever does; strangers cost it little and learn nothing.

    Args:
        ports: Those of the workers here. This process holds them already.
        introduction: How this process introduces itself; callers who cannot prove that they have its token count for
            nothing.
        keeps: Whether callers may keep the line.

    Attributes:
        mismatch: Why a process that called cannot take part, because of its token; None while none did.
        refused: Addresses whose callers did not prove that they have the token, with what is wrong; the newest few.
    """

    def __init__(
        self,
        ports: Sequence[int],
        introduction: Introduction[HelloT],
        clock: Callable[[], float],
        *,
        keeps: bool = True,
    ) -> None:
        self.mismatch: str | None = None
        self.refused: dict[str, str] = {}
        self._ports = ports
        self._introduction = introduction
        self._clock = clock
        self._keeps = keeps
        self._listeners: list[socket.socket] = []
        # From the oldest to the newest, so that those whose time is up come first.
        self._strangers: dict[_Stranger[HelloT], None] = {}
        self._speaking = ReadySet[_Stranger[HelloT]]()
        self._arrived: list[Caller[HelloT]] = []

    def open(self) -> None:
        """Starts to listen.

        Raises:
            PortTakenError: It cannot.
        """
        try:
            for port in self._ports:
                listener = bind_reusable(port)
                self._listeners.append(listener)
                listener.setblocking(False)
                listener.listen(_BACKLOG)
        except OSError as error:
            raise PortTakenError(
                f"This {self._introduction.hello.speaker} cannot listen on its workers' ports {sorted(self._ports)}: "
                f"{error}. Choose other ports in --workers (the same list on every host)."
            ) from error

    def sources(self) -> list[Any]:
        """Returns what becomes readable when there is something to do."""
        return [*self._listeners, self._speaking] if self._strangers else list(self._listeners)

    def step(self) -> list[Caller[HelloT]]:
        """Accepts connections and hears hellos, without waiting; returns who has introduced itself since."""
        for listener in self._listeners:
            # BlockingIOError: nobody calls; other errors belong to a caller that has left already.
            with contextlib.suppress(OSError):
                while len(self._strangers) < 2 * MAX_STRANGERS:
                    self._accept(*listener.accept())
        # Heard before the oldest are dropped: a launcher's hello may have come behind a thousand others' silence.
        for stranger in self._speaking.ready():
            if not self._still_strange(stranger):
                self._forget(stranger)
        self._drop_the_oldest()
        arrived, self._arrived = self._arrived, []
        return arrived

    def close(self) -> None:
        """Stops listening and hangs up on strangers; lines to callers stay."""
        for listener in self._listeners:
            listener.close()
        for stranger in self._strangers:
            stranger.line.close()
        self._listeners.clear()
        self._strangers.clear()
        self._speaking.close()

    def _accept(self, connection: socket.socket, address: tuple[Any, ...]) -> None:
        line = LineSocket(connection, MAX_HELLO_BYTES)
        side = AnswererSide(self._introduction)
        if side.opening is not None:
            line.send(side.opening)
        # An IPv4 address comes as ::ffff:1.2.3.4 on a socket that takes both kinds.
        host = str(address[0]).removeprefix("::ffff:")
        stranger = _Stranger(line, host, self._clock() + self._introduction.seconds, side)
        self._strangers[stranger] = None
        self._speaking.add(stranger)

    def _drop_the_oldest(self) -> None:
        """Hangs up on those that have taken too long, and on the oldest where there are too many."""
        now = self._clock()
        while self._strangers:
            stranger = next(iter(self._strangers))
            if len(self._strangers) <= MAX_STRANGERS and now <= stranger.deadline:
                return
            self._forget(stranger)
            stranger.line.close()

    def _forget(self, stranger: _Stranger[HelloT]) -> None:
        """It is no stranger any more, or is gone; its line may be kept."""
        del self._strangers[stranger]
        self._speaking.discard(stranger)

    def _still_strange(self, stranger: _Stranger[HelloT]) -> bool:
        try:
            messages = stranger.line.receive(1)
            reply = stranger.side.hear(messages[0]) if messages else Reply[HelloT]()
        except LineError:
            stranger.line.close()
            return False
        if reply.say is not None:
            stranger.line.send(reply.say)
        if reply.mismatch is not None:
            self._refuse(stranger, reply.mismatch, reply.met)
        elif reply.met is not None:
            self._welcome(stranger.line, reply.met)
        else:
            return not stranger.line.is_closed()
        return False

    def _welcome(self, line: LineSocket, met: Met[HelloT]) -> None:
        kept = met.link and self._keeps
        if kept:
            self._introduction.keep(line, met, "answerer")
        else:
            line.close()
        self._arrived.append(Caller(met.hello, line if kept else None))

    def _refuse(self, stranger: _Stranger[HelloT], mismatch: str, met: Met[HelloT] | None) -> None:
        stranger.line.close()
        if met is not None:
            # Without a token the network is trusted, and so is what a caller says of itself.
            self.mismatch = f"the {met.hello.speaker} on {met.hello.host} {mismatch}. {ONE_TOKEN}"
            return
        # With one, a stranger's word must not end a run: this is told only if the cluster does not form.
        self.refused[stranger.host] = mismatch
        while len(self.refused) > _MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
