"""Answers the launchers that dial this one's workers while the cluster forms; strangers cost it nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.net.hello import Hello
from tfdist.net.introduction import ONE_TOKEN, Answer, Met, Reply, keep
from tfdist.net.line_socket import LineError, LineSocket
from tfdist.net.port_lease import bind_reusable
from tfdist.net.shared_token import Token

HELLO_SECONDS = 5.0
MAX_STRANGERS = 256
_MAX_HELLO_BYTES = 256 * 1024
_MAX_REFUSED = 4
_BACKLOG = 1024


@dataclass(eq=False)
class Caller:
    """A launcher that asked to stay on the line.

    Attributes:
        hello: Who it is.
        line: The line to it.
        missing: Workers that it has not met yet, with what it saw of them; None until it says so for the first time.
        abort: Why it gave up, as it said it; None while it has not.
    """

    hello: Hello
    line: LineSocket
    missing: dict[int, str] | None = None
    abort: dict[str, Any] | None = None

    def listen(self) -> bool:
        """Takes in what it says. Returns False when it is gone or is not understood."""
        try:
            for message in self.line.receive():
                if "missing" in message:
                    self.missing = {int(index): str(seen) for index, seen in message["missing"].items()}
                if isinstance(message.get("abort"), dict):
                    self.abort = message["abort"]
        except (LineError, AttributeError, ValueError, TypeError):
            self.line.close()
        return not self.line.is_closed()


@dataclass(eq=False)
class _Stranger:
    line: LineSocket
    host: str
    deadline: float
    answer: Answer


@dataclass
class Answering:
    """Listens on this launcher's ports, says hello to whoever does, and keeps callers who ask for it.

    Args:
        ports: Worker -> port, of the workers that are started here. The launcher holds them already.
        hello: This launcher's hello.
        clock: Seconds, never going back.
        token: The job's secret; callers who cannot prove that they have it count for nothing.
        keeps: Whether this is the chief's launcher, which callers may stay on the line with.
    """

    ports: Mapping[int, int]
    hello: Hello
    clock: Callable[[], float]
    token: Token | None = None
    keeps: bool = True
    callers: list[Caller] = field(default_factory=list)
    hellos: list[Hello] = field(default_factory=list)
    problem: str | None = None
    """Why a launcher that called cannot take part, because of its token."""
    refused: dict[str, str] = field(default_factory=dict)
    """Addresses whose callers did not prove that they have the token, with what is wrong; the newest few."""
    _listeners: list[socket.socket] = field(default_factory=list)
    _strangers: list[_Stranger] = field(default_factory=list)

    def open(self) -> None:
        """Starts to listen. Raises OSError when it cannot."""
        for port in self.ports.values():
            listener = bind_reusable(port)
            self._listeners.append(listener)
            listener.setblocking(False)
            listener.listen(_BACKLOG)

    def sources(self) -> list[Any]:
        """What becomes readable when there is something to do."""
        return [*self._listeners, *(stranger.line for stranger in self._strangers), *(c.line for c in self.callers)]

    def step(self) -> None:
        """Takes calls and hellos, without waiting. New hellos are added to `hellos`."""
        for listener in self._listeners:
            # BlockingIOError: nobody calls; other errors belong to a caller that has left already.
            with contextlib.suppress(OSError):
                while len(self._strangers) < 2 * MAX_STRANGERS:
                    connection, (host, *_) = listener.accept()
                    line = LineSocket(connection, _MAX_HELLO_BYTES)
                    deadline = self.clock() + HELLO_SECONDS
                    # An IPv4 address comes as ::ffff:1.2.3.4 on a socket that takes both kinds.
                    host = host.removeprefix("::ffff:")
                    self._strangers.append(_Stranger(line, host, deadline, Answer(self.hello, self.token)))
        # Heard before the oldest are dropped: a launcher's hello may have come behind a thousand others' silence.
        self._strangers = [stranger for stranger in self._strangers if self._still_strange(stranger)]
        for stranger in self._strangers[:-MAX_STRANGERS]:
            stranger.line.close()
        self._strangers = self._strangers[-MAX_STRANGERS:]

    def close_listeners(self) -> None:
        """Stops listening and drops strangers; callers stay on the line."""
        for listener in self._listeners:
            listener.close()
        for stranger in self._strangers:
            stranger.line.close()
        self._listeners.clear()
        self._strangers.clear()

    def close(self) -> None:
        """Stops listening and hangs up on everybody."""
        self.close_listeners()
        for caller in self.callers:
            caller.line.close()

    def _still_strange(self, stranger: _Stranger) -> bool:
        try:
            messages = stranger.line.receive(1)
            reply = stranger.answer.hear(messages[0]) if messages else Reply()
        except LineError:
            stranger.line.close()
            return False
        if reply.say is not None:
            stranger.line.send(reply.say)
        if reply.mismatch is not None:
            self._refuse(stranger, reply.mismatch, reply.met)
        elif reply.met is not None:
            self._welcome(stranger.line, reply.met)
        elif stranger.line.is_closed() or self.clock() > stranger.deadline:
            stranger.line.close()
        else:
            return True
        return False

    def _welcome(self, line: LineSocket, met: Met) -> None:
        self.hellos.append(met.hello)
        if not (met.link and self.keeps):
            line.close()
            return
        keep(line, self.token, met, "answerer")
        # A launcher that calls again has lost its first line.
        for caller in [caller for caller in self.callers if caller.hello.launcher == met.hello.launcher]:
            caller.line.close()
            self.callers.remove(caller)
        self.callers.append(Caller(met.hello, line))

    def _refuse(self, stranger: _Stranger, mismatch: str, met: Met | None) -> None:
        stranger.line.close()
        if met is not None:
            # Without a token the network is trusted, and so is what a caller says of itself.
            self.problem = f"the launcher on {met.hello.host} {mismatch}. {ONE_TOKEN}"
            return
        # With one, a stranger's word must not end a run: this is told only if the cluster does not form.
        self.refused[stranger.host] = mismatch
        while len(self.refused) > _MAX_REFUSED:
            del self.refused[next(iter(self.refused))]
