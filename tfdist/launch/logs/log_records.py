"""Records of `--log-format json`: one JSON object a line, for collectors of logs such as Loki and CloudWatch."""

from __future__ import annotations

import collections
import json
import re
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from tfdist.launch.logs.log_levels import Level, LineLevels, level_of

LogFormat = Literal["text", "json"]
"""The values that `--log-format` takes."""

_COLORS = re.compile(r"\x1b\[[0-9;:]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]")


class LogRecords:
    """Makes records, each a line of UTF-8 that ends with a newline and has no other.

    Args:
        run: The run's name; None while it is not known.
        host: This machine's name; None asks the system.
        clock: Seconds since 1970 (UTC).
    """

    def __init__(
        self, run: str | None = None, host: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._run = run
        self._host = socket.gethostname() if host is None else host
        self._clock = clock
        self._attempt = 0
        self._levels: dict[tuple[int, str], LineLevels] = collections.defaultdict(LineLevels)

    def begin(self, attempt: int) -> None:
        """Takes what workers write from now on as that of attempt number `attempt`."""
        self._attempt = attempt
        self._levels.clear()

    def of_launcher(self, message: str, level: Level | None = None, **fields: Any) -> bytes:
        """The record of the launcher's own message, which may have several lines.

        Args:
            message: What it says; nothing makes no record.
            level: How serious it is; None for what the message says itself.
            **fields: More of it, for programs; one that is None is left out.
        """
        if not message.strip():
            return b""
        return self._record(level or level_of(message), message, {"source": "launcher", **fields})

    def of_worker(self, index: int, stream: Literal["stdout", "stderr"], lines: bytes) -> bytes:
        """The records of whole lines that worker `index` wrote, one each; an empty line makes none."""
        records = []
        for line in lines.split(b"\n")[:-1]:
            text = _COLORS.sub("", line.decode(errors="replace"))
            level = self._levels[index, stream].next(text)
            if text.strip():
                about = {"source": "worker", "worker": index, "attempt": self._attempt, "stream": stream}
                records.append(self._record(level, text, about))
        return b"".join(records)

    def _record(self, level: Level, message: str, about: dict[str, Any]) -> bytes:
        now = datetime.fromtimestamp(self._clock(), UTC)
        record = {
            "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level,
            "run": self._run,
            "host": self._host,
            **about,
            "message": message,
        }
        known = {name: value for name, value in record.items() if value is not None}
        return json.dumps(known, ensure_ascii=False, allow_nan=False).encode(errors="replace") + b"\n"
