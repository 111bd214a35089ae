"""Answers the launchers that dial this one's workers while the cluster forms; strangers cost it nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.launch.hello import Hello
from tfdist.launch.holding import bind_reusable
from tfdist.launch.lines import LineError, LineSocket

HELLO_SECONDS = 5.0
MAX_STRANGERS = 256
_MAX_HELLO_BYTES = 256 * 1024
_BACKLOG = 128


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


@dataclass
class _Stranger:
    line: LineSocket
    deadline: float


@dataclass
class Answering:
    """Listens on this launcher's ports, says hello to whoever does, and keeps callers who ask for it.

    Args:
        ports: Worker -> port, of the workers that are started here. The launcher holds them already.
        hello: This launcher's hello.
        clock: Seconds, never going back.
    """

    ports: Mapping[int, int]
    hello: Hello
    clock: Callable[[], float]
    callers: list[Caller] = field(default_factory=list)
    hellos: list[Hello] = field(default_factory=list)
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
                    connection, _ = listener.accept()
                    line = LineSocket(connection, _MAX_HELLO_BYTES)
                    self._strangers.append(_Stranger(line, self.clock() + HELLO_SECONDS))
        for stranger in self._strangers[:-MAX_STRANGERS]:
            stranger.line.close()
        self._strangers = [stranger for stranger in self._strangers if self._still_strange(stranger)]

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
        line = stranger.line
        try:
            messages = line.receive(1)
            theirs = Hello.from_message(messages[0]) if messages else None
        except LineError:
            line.close()
            return False
        if theirs is None:
            if line.is_closed() or self.clock() > stranger.deadline:
                line.close()
                return False
            return True
        line.send(self.hello.to_message())
        self.hellos.append(theirs)
        if messages[0].get("link"):
            self.callers.append(Caller(theirs, line))
        else:
            line.close()
        return False
