"""A proxy before a store, which slows it down, fails instead of it, and loses what it says."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_SECONDS = 60.0


@dataclass(frozen=True)
class Fault:
    """What happens to one request.

    Attributes:
        seconds: For how long it waits first.
        status: With which HTTP status it is answered, instead of by the store; 0 for the store's own answer.
        code: S3's name of that error.
        cut_after: Bytes of the answer's body after which the connection ends; None for all of it.
        lost: Whether the store gets the request, and its answer is lost.
    """

    seconds: float = 0.0
    status: int = 0
    code: str = ""
    cut_after: int | None = None
    lost: bool = False


@dataclass
class FaultyProxy:
    """The proxy, and what it does.

    Attributes:
        endpoint: Its address.
        decide: From method and path to what happens to a request; None for nothing.
        requests: Method and path of each that came.
    """

    endpoint: str
    decide: Callable[[str, str], Fault | None] = lambda method, path: None
    requests: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fails_first(self, count: int, fault: Fault, where: str = "") -> None:
        """Lets the first requests whose method and path hold a text end with a fault."""
        left = [count]

        def decide(method: str, path: str) -> Fault | None:
            with self.lock:
                if where not in f"{method} {path}" or not left[0]:
                    return None
                left[0] -= 1
            return fault

        self.decide = decide


@contextlib.contextmanager
def faulty_proxy(upstream: str, drops: Sequence[str] = ()) -> Iterator[FaultyProxy]:
    """Serves a proxy before a store on a free port.

    Args:
        upstream: The address of the store.
        drops: Headers that the store does not get, as if it did not know them.
    """
    server = _Server(("127.0.0.1", 0), _Connection)
    server.upstream = urllib.parse.urlsplit(upstream).netloc
    server.drops = frozenset(name.lower() for name in drops)
    server.proxy = FaultyProxy(f"http://127.0.0.1:{server.server_address[1]}")
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    upstream: str
    drops: frozenset[str]
    proxy: FaultyProxy


class _Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS
    server: _Server  # type: ignore[assignment]

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):  # the client may leave at any time
            self._pass_on()

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        with proxy.lock:
            proxy.requests.append(f"{self.command} {self.path}")
        fault = proxy.decide(self.command, self.path) or Fault()
        time.sleep(fault.seconds)
        if fault.status:
            text = f"<Error><Code>{fault.code}</Code><Message>by the proxy</Message></Error>".encode()
            self._send(fault.status, [("Content-Type", "application/xml")], text, None)
            return
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=_SECONDS)
        try:
            passed = {name: value for name, value in self.headers.items() if name.lower() not in self.server.drops}
            upstream.request(self.command, self.path, body, passed)
            answer = upstream.getresponse()
            content, headers = answer.read(), answer.getheaders()
        finally:
            upstream.close()
        if fault.lost:
            self.close_connection = True
            return
        self._send(answer.status, headers, content, fault.cut_after)

    def _send(self, status: int, headers: list[tuple[str, str]], content: bytes, cut_after: int | None) -> None:
        self.send_response_only(status)
        dropped = {"transfer-encoding", "connection"} | (set() if self.command == "HEAD" else {"content-length"})
        for name, value in headers:
            if name.lower() not in dropped:
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut_after])
        if cut_after is not None:
            self.close_connection = True
