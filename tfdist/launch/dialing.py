"""Dials another launcher at one worker's address until it answers; never blocks."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from tfdist.cluster.spec import Address
from tfdist.launch.hello import Hello
from tfdist.launch.lines import LineError, LineSocket
from tfdist.launch.waiting import is_writable

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
_RETRY_SECONDS = 0.2

NOT_TRIED = "has not been tried yet"
_REFUSED = "refuses the connection: no tfdist launcher waits there, or not any more"
_SILENT = f"does not answer within {CONNECT_SECONDS:g} s: the host is down, or a firewall drops what is sent"
_UNRESOLVED = "has a name that does not resolve on this host"
_RESOLVING = "has a name that is still being looked up on this host"
_NO_HELLO = f"takes the connection, but says nothing for {ANSWER_SECONDS:g} s: something else listens there"
_STRANGER = "takes the connection, but is no tfdist launcher: something else listens there"
LEFT = "was there, and has left again"


class Lookup:
    """The addresses of a host, looked up in a thread because the system's resolver cannot be given a bound."""

    def __init__(self, address: Address) -> None:
        self.found: list[Any] | None = None
        self._address = address
        threading.Thread(target=self._run, name=f"tfdist-resolve-{address.host}", daemon=True).start()

    def _run(self) -> None:
        try:
            self.found = socket.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            self.found = []


class Dial:
    """Attempts to meet the launcher of one worker.

    Args:
        index: The worker.
        address: Where its launcher listens while the cluster forms.
        hello: This launcher's hello.
        link: Whether to keep the connection once the other has answered.
        clock: Seconds, never going back.
    """

    def __init__(self, index: int, address: Address, hello: Hello, *, link: bool, clock: Callable[[], float]) -> None:
        self.index = index
        self.address = address
        self.seen = NOT_TRIED
        self.met: Hello | None = None
        self.line: LineSocket | None = None
        self._hello = hello
        self._link = link
        self._clock = clock
        self._lookup: Lookup | None = None
        self._targets: list[Any] = []
        self._connecting: socket.socket | None = None
        self._deadline = 0.0
        self._next_try = 0.0

    def waiting_for(self) -> tuple[list[LineSocket], list[socket.socket]]:
        """What must become readable, and what writable, before `step` gets on."""
        return [self.line] if self.line else [], [self._connecting] if self._connecting else []

    def step(self) -> None:
        """Gets on as far as is possible without waiting; `met` and `seen` tell how far that is."""
        if self.met is not None:
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

    def _give_up(self, seen: str) -> None:
        self.close()
        self.seen = seen
        self._next_try = self._clock() + _RETRY_SECONDS

    def _look_up(self) -> None:
        if self._lookup is None:
            self._lookup = Lookup(self.address)
        if self._lookup.found is None:
            self.seen = _RESOLVING if self.seen == NOT_TRIED else self.seen
            return
        self._targets, self._lookup = self._lookup.found, None
        if not self._targets:
            self._give_up(_UNRESOLVED)
        else:
            self._connect()

    def _connect(self) -> None:
        family, kind, protocol, _, target = self._targets.pop(0)
        try:
            self._connecting = socket.socket(family, kind, protocol)
            self._connecting.setblocking(False)
            code = self._connecting.connect_ex(target)
        except OSError as error:
            code = error.errno or errno.EINVAL
        self._deadline = self._clock() + CONNECT_SECONDS
        if code not in (0, errno.EINPROGRESS):
            self._give_up(_explain(code))

    def _finish_connecting(self, connection: socket.socket) -> None:
        if not is_writable(connection):
            if self._clock() > self._deadline:
                self._give_up(_SILENT)
            return
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._give_up(_explain(code))
            return
        self._connecting = None
        self.line = LineSocket(connection)
        self.line.send(self._hello.to_message(link=self._link))
        self._deadline = self._clock() + ANSWER_SECONDS

    def _hear_answer(self, line: LineSocket) -> None:
        try:
            messages = line.receive(1)
            if messages:
                self.met = Hello.from_message(messages[0])
        except LineError:
            self._give_up(_STRANGER)
            return
        if self.met is not None:
            self._targets.clear()
            if not self._link:
                self.close()
        elif line.is_closed():
            self._give_up(_REFUSED)
        elif self._clock() > self._deadline:
            self._give_up(_NO_HELLO)


def _explain(code: int) -> str:
    if code == errno.ECONNREFUSED:
        return _REFUSED
    if code == errno.ETIMEDOUT:
        return _SILENT
    return f"cannot be reached: {os.strerror(code)}"
