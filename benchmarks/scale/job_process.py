"""A process of a job, as the benchmark sees it from outside: what it says, and what it costs."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.comparison.process_ending import end
from tfdist.net.line_socket import LineBuffer

_KIB = 1024


class ScaleError(Exception):
    """A process of the job did something else than it should; the text says what."""


@dataclass(frozen=True)
class Cost:
    """What a process had used by one moment.

    Attributes:
        at: The moment, by the clock of this machine.
        seconds: Processor time.
        peak_bytes: The most memory that it had at once.
        descriptors: The files and sockets that it has open.
    """

    at: float
    seconds: float
    peak_bytes: int
    descriptors: int


class JobProcess:
    """A process that says lines of JSON.

    Args:
        prefix: What runs it on its host.
        module: What it runs.
        arguments: Of the module.
        log: Where its stderr goes.
    """

    def __init__(self, prefix: Sequence[str], module: str, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        self._lines = LineBuffer()
        self._said: dict[str, Any] = {}

    def close(self) -> None:
        """Ends it with all that it has started."""
        end(self._process)

    def tell(self, text: str = "") -> None:
        """Says a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n".encode())
        self._process.stdin.flush()

    def tell_no_more(self) -> None:
        """Ends what it hears."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def said(self, name: str, deadline: float) -> dict[str, Any]:
        """All that it has said, once it has said something of this name.

        Raises:
            ScaleError: It has not by the deadline, or has ended.
        """
        assert self._process.stdout is not None
        while name not in self._said:
            left = deadline - time.monotonic()
            data = b""
            if left > 0 and select.select([self._process.stdout], [], [], left)[0]:
                data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise ScaleError(f"{' '.join(self._process.args[-3:])} did not come to {name!r}: {self._last_words()}")
            # Launchers say more than what is meant for this.
            for line in self._lines.cut(data):
                self._said |= json.loads(line) if line.startswith(b"{") else {}
        return self._said

    def cost(self) -> Cost:
        """What it has used until now."""
        place = Path("/proc", str(self._process.pid))
        fields = (place / "stat").read_text().rpartition(") ")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines() if ":" in line)
        descriptors = len(os.listdir(place / "fd"))
        return Cost(time.monotonic(), seconds, int(status["VmHWM"].split()[0]) * _KIB, descriptors)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-1500:] or "it wrote nothing on stderr"
