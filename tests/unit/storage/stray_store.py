"""A store whose answers are those of no S3: without end, elsewhere, or something else than XML."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_ENDLESS = b"<Contents><Key>kkkkkkkkkkkkkkk</Key></Contents>" * 1000
_BOMB = b"<!DOCTYPE l [<!ENTITY a 'aa'>]><ListBucketResult><Contents><Key>&a;</Key></Contents></ListBucketResult>"


@dataclass
class StrayStore:
    """The store, and what it does.

    Attributes:
        endpoint: Its address.
        kind: What it answers: a method of the connection, by its name.
        requests: Method and path of each that came.
    """

    endpoint: str
    kind: str = "html"
    requests: list[str] = field(default_factory=list)


@contextlib.contextmanager
def stray_store() -> Iterator[StrayStore]:
    """Serves one on a free port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Connection)
    server.block_on_close = False
    found = StrayStore(f"http://127.0.0.1:{server.server_address[1]}")
    server.store = found  # type: ignore[attr-defined]
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield found
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class _Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        store: StrayStore = self.server.store  # type: ignore[attr-defined]
        store.requests.append(f"{self.command} {self.path}")
        with contextlib.suppress(OSError):  # the client leaves where it has had enough
            getattr(self, f"_{store.kind}")(store)

    do_HEAD = do_GET

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response_only(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _html(self, store: StrayStore) -> None:
        self._say(200, b"<html><p>Sign in</html>")

    def _bomb(self, store: StrayStore) -> None:
        self._say(200, _BOMB)

    def _elements(self, store: StrayStore) -> None:
        self._say(200, b"<a>" + b"<b/>" * 300_000 + b"</a>")

    def _elsewhere(self, store: StrayStore) -> None:
        # The answer to the second request shows that it was made.
        self._say(*((307,) if len(store.requests) == 1 else (200, b"internal")), Location=f"{store.endpoint}/internal")

    def _endless(self, store: StrayStore) -> None:
        self._begin_endless(200)

    def _endless_error(self, store: StrayStore) -> None:
        self._begin_endless(400)

    def _begin_endless(self, status: int) -> None:
        self._say(status, b"<a>", Content_Length="9" * 15)
        while True:
            self.wfile.write(_ENDLESS)

    def _more(self, store: StrayStore) -> None:
        token = f"<NextContinuationToken>{len(store.requests)}</NextContinuationToken>"
        key = f"<Contents><Key>run/{len(store.requests)}</Key></Contents>"
        self._say(200, f"<List><IsTruncated>true</IsTruncated>{token}{key}</List>".encode())

    def _vast(self, store: StrayStore) -> None:
        self._say(200, Content_Length=str(1 << 50), Last_Modified="Wed, 21 Oct 2026 07:28:00 GMT")

    def _large(self, store: StrayStore) -> None:
        self._say(200, Content_Length=str(1 << 40), Last_Modified="Wed, 21 Oct 2026 07:28:00 GMT")
