"""Display of what the hosts print: each line with its host's name, and of one failure one report.

Every launcher of a job reports the failure that ended it, all of them the same one. The reports are held back, and one
of them is shown when all is over. A script may print what looks like a report; a launcher ends when it has reported, so
what its end does not follow within seconds is shown as it came.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from tfdist.launch.logs.log_records import LogRecords
from tfdist.text import without_controls

REPORT = (b"error: ", b"stopped: ")
"""The beginnings of a launcher's report."""
_AGAIN = b"all workers start again in "
_MOST_LINES = 2000
HOLD_SECONDS = 5.0
"""Seconds after its report in which a host may say that it has ended; until then the report may be a script's line."""


class ReportHolder:
    """Holds the reports in one host's stderr.

    Args:
        shows_restarts: Whether the reports of attempts that are followed by another one are shown: one host's are.
    """

    def __init__(self, *, shows_restarts: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._shows_restarts = shows_restarts
        self._clock = clock
        self._since = 0.0
        self._code: int | None = None
        self.report: list[bytes] = []
        """The lines that may be the report, as far as it has come."""

    def feed(self, lines: Sequence[bytes]) -> list[bytes]:
        """Adds lines, and returns those that are shown now; without any those for which no end has come."""
        is_stale = self._code is None and self._clock() > self._since + HOLD_SECONDS
        shown = self.release() if is_stale else []
        for line in lines:
            if line.startswith(REPORT) and self._code != 0:
                # The report is the last one.
                shown += self.release()
                self.report, self._since = [line], self._clock()
            elif not self.report:
                shown.append(line)
            elif line.startswith(_AGAIN):
                shown += [*self.report, line] if self._shows_restarts else []
                self.report = []
            else:
                self.report.append(line)
        surplus = max(0, len(self.report) - _MOST_LINES)
        shown += self.report[:surplus]
        del self.report[:surplus]
        return shown

    def end(self, code: int) -> list[bytes]:
        """Notes what the host has ended with, and returns the lines that are no report, as nothing has failed."""
        self._code = code
        return self.release() if code == 0 else []

    def forget(self) -> None:
        """Begins anew."""
        self._code, self.report = None, []

    def release(self) -> list[bytes]:
        """Holds nothing any more, and returns what it held."""
        held, self.report = self.report, []
        return held


class OutputDisplay:
    """Shows the output of all hosts.

    Args:
        hosts: Their names; the first has the chief.
        out: Where their stdout is shown.
        records: What makes records of the launch's own words, where hosts print records, which have their host in them;
            None for text, with the host's name before each line.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        out: BinaryIO,
        err: BinaryIO,
        records: LogRecords | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out, self._err = out, err
        self._records = records
        self._holders = {host: ReportHolder(shows_restarts=not place, clock=clock) for place, host in enumerate(hosts)}

    def show(self, host: str, out: Sequence[bytes], err: Sequence[bytes]) -> None:
        """Shows lines of a host, and those of before that have turned out to be no report."""
        self._write(self._out, host, out)
        self._write(self._err, host, self._holders[host].feed(err))

    def end(self, host: str, code: int) -> None:
        """Takes note of a host's end."""
        self._write(self._err, host, self._holders[host].end(code))

    def begin(self, host: str) -> None:
        """Forgets what a host has reported, as its part starts again."""
        self._holders[host].forget()

    def held(self, host: str) -> str:
        """The report of a host, as far as it has come."""
        return b"\n".join(self._holders[host].report).decode(errors="replace")

    def release(self, host: str) -> None:
        """Shows the report of a host, as the run goes on without it."""
        self._write(self._err, host, self._holders[host].release())

    def say(self, text: str) -> None:
        """Shows a text of the launch itself."""
        record = None if self._records is None else self._records.of_launcher(text)
        said = without_controls(text).encode(errors="replace") + b"\n"
        self._put(self._err, said if record is None else record)

    def report(self, first: str) -> str:
        """The report of one host: of `first` if it has one, else of the first that has."""
        reports = [self._holders[first].report, *(holder.report for holder in self._holders.values())]
        # A host that was told to stop says so; it is not the cause where another has an error.
        held = sorted(filter(None, reports), key=lambda report: not report[0].startswith(REPORT[0]))
        return b"\n".join(held[0]).decode(errors="replace") if held else ""

    def all_reports(self) -> str:
        """The reports of all hosts, each line with its host's name."""
        lines = [f"{host}: ".encode() + line for host, holder in self._holders.items() for line in holder.report]
        return b"\n".join(lines).decode(errors="replace")

    def _write(self, stream: BinaryIO, host: str, lines: Sequence[bytes]) -> None:
        prefix = f"{host}: ".encode() if self._records is None else b""
        # Of a line that was overwritten, what a screen shows in the end.
        shown = [prefix + line.rstrip(b"\r").rpartition(b"\r")[2] + b"\n" for line in lines]
        if shown:
            self._put(stream, b"".join(shown))

    @staticmethod
    def _put(stream: BinaryIO, data: bytes) -> None:
        # A terminal that is gone must not end the run.
        with contextlib.suppress(OSError, ValueError):
            stream.write(data)
            stream.flush()
