"""A stand-in for Google Cloud Storage, as far as TensorFlow's file system `gs://` speaks to it.

TensorFlow has the hosts' names built in, and takes a proxy, a certificate and a token from the environment. So this is
the proxy, which answers instead of those hosts: TensorFlow's own client is what a test runs through.

The interface is that of https://cloud.google.com/storage/docs/json_api.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import socketserver
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import trustme

HOSTS = ("www.googleapis.com", "storage.googleapis.com")
SECONDS = 60.0
"""How long a connection waits for its next request."""


@dataclass
class Bucket:
    """What lies in the only bucket, which answers to any name.

    Attributes:
        objects: Name -> content.
        answers_only: With which HTTP status everything is refused; None for nothing.
        refuses: What is in the names of objects that are refused with 403; None for no object.
        requests: Method and address of each that came.
        environment: What a process needs to reach it.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    answers_only: int | None = None
    refuses: str | None = None
    requests: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def listed(self, prefix: str, delimiter: str) -> tuple[list[str], list[str]]:
        """Names that begin with `prefix`, and the beginnings of others up to the delimiter behind it."""
        names, prefixes = [], set()
        for name in sorted(self.objects):
            if not name.startswith(prefix):
                continue
            head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            if found:
                prefixes.add(prefix + head + delimiter)
            else:
                names.append(name)
        return names, sorted(prefixes)


@contextlib.contextmanager
def bucket(folder: Path) -> Iterator[Bucket]:
    """Serves an empty one.

    Args:
        folder: For the certificate.
    """
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*HOSTS).configure_cert(context)
    found = Bucket()
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.bucket, server.context = found, context
        found.environment = {
            "https_proxy": f"http://127.0.0.1:{server.server_address[1]}",
            "CURL_CA_BUNDLE": str(folder / "authority.pem"),
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "token",
            "NO_GCE_CHECK": "true",
        }
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield found
        finally:
            server.shutdown()
            serving.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    bucket: Bucket
    context: ssl.SSLContext


class _Connection(socketserver.BaseRequestHandler):
    """A connection to the proxy, which becomes one to a host."""

    server: _Server

    def handle(self) -> None:
        self.request.settimeout(SECONDS)
        asked = b""
        with contextlib.suppress(OSError):  # the client may leave at any time: it is killed, too
            while b"\r\n\r\n" not in asked:
                piece = self.request.recv(4096)
                if not piece:
                    return
                asked += piece
            assert asked.startswith(b"CONNECT ") and asked.split(b":")[0].split()[1].decode() in HOSTS
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with self.server.context.wrap_socket(self.request, server_side=True) as host:
                _Host(host, self.client_address, self.server)


class _Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # type: ignore[assignment]

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, act: Any) -> None:
        body = self._body()
        bucket = self.server.bucket
        with bucket.lock:
            bucket.requests.append(f"{self.command} {self.path}")
            if bucket.answers_only is not None:
                self._send(HTTPStatus(bucket.answers_only))
                return
            if bucket.refuses is not None and bucket.refuses in self.path:
                self._send(HTTPStatus.FORBIDDEN)
                return
            parts = urllib.parse.urlsplit(self.path)
            options = {key: value[0] for key, value in urllib.parse.parse_qs(parts.query).items()}
            act(bucket, parts.path, options, body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _get(self, bucket: Bucket, path: str, options: Mapping[str, str], body: bytes) -> None:
        name = _object_of(path)
        if name is None and re.fullmatch(r"/storage/v1/b/[^/]+/o", path):
            names, prefixes = bucket.listed(options.get("prefix", ""), options.get("delimiter", ""))
            limit = int(options.get("maxResults", 1000))
            items = [{"name": name, **_facts(bucket.objects[name])} for name in names]
            self._send(HTTPStatus.OK, {"items": items[:limit], "prefixes": prefixes[: limit - len(items[:limit])]})
        elif name is None and re.fullmatch(r"/storage/v1/b/[^/]+", path):
            self._send(HTTPStatus.OK, {"location": "US-EAST1", "name": "bucket"})
        elif name is not None and name in bucket.objects:
            self._send(HTTPStatus.OK, {"name": name, **_facts(bucket.objects[name])})
        elif name is None and (content := bucket.objects.get(urllib.parse.unquote(path).split("/", 2)[2])) is not None:
            self._send_part(content)
        else:
            self._send(HTTPStatus.NOT_FOUND)

    def _post(self, bucket: Bucket, path: str, options: Mapping[str, str], body: bytes) -> None:
        if options.get("uploadType") == "resumable":
            address = f"https://www.googleapis.com/session/{urllib.parse.quote(options['name'], safe='')}"
            self._send(HTTPStatus.OK, headers={"Location": address})
        elif options.get("uploadType") == "media":
            bucket.objects[options["name"]] = body
            self._send(HTTPStatus.OK, {"name": options["name"], **_facts(body)})
        else:
            self._send(HTTPStatus.NOT_IMPLEMENTED)

    def _put(self, bucket: Bucket, path: str, options: Mapping[str, str], body: bytes) -> None:
        name = urllib.parse.unquote(path.removeprefix("/session/"))
        if self.headers["Content-Range"].startswith("bytes */"):  # an upload was broken off: how much of it is there?
            self._send(HTTPStatus.OK if name in bucket.objects else HTTPStatus.PERMANENT_REDIRECT)
            return
        bucket.objects[name] = body
        self._send(HTTPStatus.OK, {"name": name, **_facts(body)})

    def _delete(self, bucket: Bucket, path: str, options: Mapping[str, str], body: bytes) -> None:
        found = bucket.objects.pop(_object_of(path) or "", None)
        self._send(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.NO_CONTENT)

    def _send_part(self, content: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        begin, last = (int(asked[1]), int(asked[2])) if asked else (0, len(content))
        if begin >= len(content):
            self._send(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        else:
            self._send(HTTPStatus.PARTIAL_CONTENT, content[begin : last + 1])

    def _send(self, status: HTTPStatus, content: Any = b"", headers: Mapping[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _object_of(path: str) -> str | None:
    found = re.fullmatch(r"/storage/v1/b/[^/]+/o/([^/]+)", path)
    return found and urllib.parse.unquote(found[1])


def _facts(content: bytes) -> dict[str, str]:
    return {"size": str(len(content)), "generation": "1", "updated": "2026-01-01T00:00:00.000Z"}
