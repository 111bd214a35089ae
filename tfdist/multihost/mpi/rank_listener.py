"""Rank listener: where the ranks of a launch call back, each twice; it listens until all of them have."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable
from typing import Final, get_args

from tfdist.cluster.cluster_spec import is_loopback
from tfdist.cluster.interfaces import own_addresses
from tfdist.multihost.mpi.call_back import CallError, StreamName, answer_call, places_text
from tfdist.net.shared_token import Token

_BACKLOG: Final = 512
_AT_ONCE = 128


class RankListener:
    """Answers calls, in threads of its own; a context manager that ends them.

    Args:
        token: The secret of the launch.
        hosts: Those whose ranks will call.
    """

    def __init__(self, token: Token, hosts: Iterable[str]) -> None:
        self._token = token
        self._known = frozenset((host, stream) for host in hosts for stream in get_args(StreamName))
        self._missing = set(self._known)
        self._calls: dict[tuple[str, str], socket.socket] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._socket = socket.create_server(("", 0), family=_family(), backlog=_BACKLOG, dualstack_ipv6=_is_dual())
        threading.Thread(target=self._accept, daemon=True).start()

    def fileno(self) -> int:
        """Readable after a rank has called."""
        return self._woken

    @property
    def places(self) -> str:
        """The places to call, as ranks are told: the machine's addresses, those of loopback last."""
        found = [address for address in own_addresses() if not is_loopback(address) and not address.startswith("fe80")]
        return places_text([*found, "127.0.0.1"], self._socket.getsockname()[1])

    def take(self, host: str) -> tuple[socket.socket, socket.socket] | None:
        """The connections of a host's rank, control and errors, once both are there."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        with self._lock:
            keys = (host, "control"), (host, "errors")
            if not all(key in self._calls for key in keys):
                return None
            control, errors = (self._calls.pop(key) for key in keys)
            return control, errors

    def close(self) -> None:
        """Answers no more calls."""
        self._stop_listening()
        with self._lock:
            for connection in self._calls.values():
                connection.close()
            self._calls.clear()

    def _stop_listening(self) -> None:
        # A thread that waits in accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            self._slots.acquire()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            key = answer_call(connection, self._token)
            if key not in self._known:
                raise CallError("it is on no host of the launch")
        except (OSError, CallError):
            connection.close()
            return
        finally:
            self._slots.release()
        # A host that is cut off is noticed by its silence.
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
        with self._lock:
            self._calls[key] = connection
            self._missing.discard(key)
            is_complete = not self._missing
        if is_complete:
            self._stop_listening()
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake, b"x")


def _is_dual() -> bool:
    return socket.has_dualstack_ipv6()


def _family() -> socket.AddressFamily:
    return socket.AF_INET6 if _is_dual() else socket.AF_INET
