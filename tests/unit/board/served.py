"""A board that is served, and what it answers."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 60


@dataclass(frozen=True)
class Board:
    """One board.

    Attributes:
        process: Its process.
        url: What it has printed.
    """

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(re.findall(r":(\d+)/", self.url)[0])

    @property
    def token(self) -> str:
        return self.url.partition("token=")[2]

    def call(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer, answer.read()

    def ask(self, path: str) -> Any:
        answer, body = self.call(f"{path}{'&' if '?' in path else '?'}token={self.token}")
        return answer.status, json.loads(body)


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[Board]:
    """Starts `tfdist board`; ends it by Ctrl-C."""
    command = [sys.executable, "-m", "tfdist", "board", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        late = threading.Timer(5 * SECONDS, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            found = re.search(r"http://\S+", first)
            assert found is not None, first + process.stdout.read()
            yield Board(process, found[0])
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)
        finally:
            process.kill()
            late.cancel()
