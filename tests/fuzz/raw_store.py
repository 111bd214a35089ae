"""A server that answers every request with the same bytes, whatever they say, and closes the connection."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class RawStore:
    """The server, and what it answers.

    Attributes:
        endpoint: Its address.
        head: The status line and the headers of its answers.
        body: What follows, but to HEAD.
        paths: What was asked for.
    """

    endpoint: str
    head: bytes = b"HTTP/1.1 200 OK\r\n\r\n"
    body: bytes = b""
    paths: list[str] = field(default_factory=list)


@contextlib.contextmanager
def raw_store() -> Iterator[RawStore]:
    """Serves one on a free port."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.store = RawStore(f"http://127.0.0.1:{server.server_address[1]}")
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield server.store
        finally:
            server.shutdown()
            serving.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    store: RawStore


class _Connection(socketserver.StreamRequestHandler):
    timeout = 10
    server: _Server

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the client may leave at any time
            line = self.rfile.readline(65536)
            while self.rfile.readline(65536).strip():
                pass
            self.server.store.paths.append(line.decode("latin-1").partition(" ")[2])
            self.wfile.write(self.server.store.head)
            if not line.startswith(b"HEAD "):
                self.wfile.write(self.server.store.body)
