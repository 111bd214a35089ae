"""Server of the board, by Uvicorn: listens until a signal comes, each call with a bound of time."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import ipaddress
import socket
import threading
from collections.abc import Callable
from typing import Any

from tfdist.board.board_folder import BoardFolder
from tfdist.board.request_guard import Guard
from tfdist.cluster.ports import port_owner
from tfdist.errors import PortTakenError, UsageError
from tfdist.launch.signals import Signals
from tfdist.net.bounded_wait import wait_for

CALL_SECONDS = 20.0
"""Seconds that one call may take in all."""

MOST_CALLERS = 48
"""Whose calls are answered at the same time; further ones are told so."""

_MOST_HEAD_BYTES = 16 << 10
_ENDING_SECONDS = 3.0
_SIGNALLED = 128
_POLL_SECONDS = 1.0


def check_extra() -> None:
    """Raises `UsageError` where Starlette or Uvicorn is not installed."""
    lacking = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if lacking:
        raise UsageError(
            f"`tfdist board` needs {' and '.join(lacking)}: not installed here. Expected the extra where tfdist is "
            "installed. Install it: pip install 'tfdist[board]'. `tfdist status` and `tfdist ledger` need none."
        )


def serve(folder: BoardFolder, host: str, port: int, announce: Callable[[Guard], None]) -> int:
    """Serves the board until a signal comes; returns the exit code.

    Args:
        port: A port; 0 takes any.
        announce: Called once it can be reached.

    Raises:
        PortTakenError: Somebody else has the port.
        UsageError: The extra is not installed, or the address cannot be listened on.
    """
    check_extra()
    with _listening(host, port) as listener, Signals() as signals:
        guard = Guard(host, listener.getsockname()[1])
        server, thread = _started(folder, guard, listener)
        announce(guard)
        while not signals.received and thread.is_alive():
            wait_for([signals], _POLL_SECONDS)
            signals.drain()
        server.should_exit = server.force_exit = True
        # A call that waits for a disk is not waited for.
        thread.join(_ENDING_SECONDS)
        return _SIGNALLED + signals.received[0] if signals.received else 1


def _started(folder: BoardFolder, guard: Guard, listener: socket.socket) -> tuple[Any, threading.Thread]:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from tfdist.board.web_app import web_app

    class BoundedCall(H11Protocol):
        """One call a connection, whose end comes whether the caller sends and reads or not."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(CALL_SECONDS, transport.abort)

    config = uvicorn.Config(
        web_app(folder, guard),
        http=BoundedCall,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CALLERS,
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # Outside of the main thread Uvicorn leaves the signals alone.
    thread = threading.Thread(target=server.run, args=([listener],), name="tfdist-board", daemon=True)
    thread.start()
    return server, thread


def _listening(host: str, port: int) -> socket.socket:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        raise UsageError(
            "--host must be an IP address of this machine: 127.0.0.1 for this machine alone, 0.0.0.0 for every "
            f"interface. Received: {host!r}"
        ) from None
    listener = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CALLERS)
        return listener
    except OSError as error:
        listener.close()
        raise _refused(error, host, port) from error


def _refused(error: OSError, host: str, port: int) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        owner = port_owner(port) or "a process that cannot be named"
        return PortTakenError(
            f"Port {port} of --port is taken by {owner}. Expected one that is free. Leave --port out for any, or "
            "choose another."
        )
    if isinstance(error, PermissionError):
        return UsageError(f"--port {port} may not be used by this user. Expected a port from 1024 on, or 0 for any.")
    return UsageError(
        f"--host {host} cannot be listened on: {error.strerror or error}. Expected an IP address of this machine: "
        "127.0.0.1 for this machine alone, 0.0.0.0 for every interface."
    )
