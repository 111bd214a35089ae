"""Filters of TensorFlow's and NCCL's own log lines, which belong in a worker's log and not on the terminal.

TensorFlow 2.21 writes them by Abseil: level, date, time, thread, `file:line]`, text. TensorFlow 2.19 and 2.20 write
most of them with another prefix: date, time, level, path of the file. A message may continue on lines without a prefix.
Python's `absl.logging` writes Abseil's prefix with the name of a Python file: those lines are the script's own, and are
shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from tfdist.python_op_errors import PythonOpErrors
from tfdist.text import printable

_LAST_LINES = 12

_WARNING = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
_ABSEIL = rb"%b\d{4} \d\d:\d\d:\d+\.\d+ +\d+ "
_DATED = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: %b "
_FILE = rb"[\w./-]+\.(?:cc|cpp|cu|h):\d+\] "


def _prefix(levels: bytes) -> bytes:
    return rb"(?:" + _ABSEIL % levels + rb"|" + _DATED % levels + rb")"


_LINE = re.compile(
    re.escape(_WARNING) + rb"|" + _prefix(b"[IW]") + _FILE +
    # TensorFlow logs these as errors; on a machine without a GPU, when a library registers twice, or where float16
    # takes TensorFlow's own kernels beside oneDNN's, they are none.
    rb"|" + _prefix(b"E") + rb"(?:[\w./-]+/)?(?:cuda_\w+\.cc:\d+\] "
    rb"(?:failed call to cuInit|Unable to register cu\w+ factory)|util\.cc:\d+\] oneDNN supports DT_HALF only on |"
    # XLA logs as errors what shall be seen: it has measured a kernel beside other work, or compiles for a long time.
    rb"(?:cuda|gpu)_timer\.cc:\d+\] Delay kernel timed out|slow_operation_alarm\.cc:\d+\] )"
)
_START = re.compile(rb"[IWE](?:\d{0,4}$|\d{4} )")
_DATED_START = b"0000-00-00 00:00:00."

_NO_GPUS = b"WARNING:tensorflow:Enabled NCCL communication but no GPUs detected/specified."
"""By TensorFlow's Python code, on whatever GPUs a worker has: it looks before it has set them up."""


@dataclass(frozen=True)
class _Continuation:
    """Lines without a prefix that belong to a message.

    Attributes:
        head: What its first line has; empty for any message.
        lines: These lines.
        starts: How they may start, for as long as they have not ended: what starts otherwise is none.
    """

    head: bytes
    lines: re.Pattern[bytes]
    starts: tuple[bytes, ...]


def _after(head: bytes, lines: bytes, *starts: bytes) -> _Continuation:
    return _Continuation(head, re.compile(lines), starts)


_EMPTY = rb"\n$"
_CONTINUATIONS = (
    # After the messages about the processor's instructions, about tasks that have not connected, and about an iterator
    # that has ended.
    _after(b"", rb"To enable the following instructions: [\w .,-]+rebuild TensorFlow", b"To enable the following "),
    _after(b"", rb"/job:\w+/replica:\d+/task:\d+\s*$", b"/job:"),
    _after(b"", rb"\t \[\[\{\{node \S+\}\}\]\]", b"\t [[{{node "),
    _after(b"NUMA node", rb"Your kernel may have been built without NUMA support\.", b"Your kernel may have "),
    # What NVIDIA's assembler prints, a line a kernel, with an empty one at the end.
    _after(b"ptxas", rb"ptxas (?:info|warning) *:|" + _EMPTY, b"ptxas "),
    _after(
        b"ptxas",
        rb"Relying on driver to perform ptx compilation\.|Modify \$PATH to customize ptxas|"
        rb"This message will (?:be )?only ",
        *(b"Relying on driver to", b"Modify $PATH to cust", b"This message will "),
    ),
    _after(
        b"Can't find libdevice directory",
        rb"Searched for CUDA in the following directories:|  \S*\n$|"
        rb"You can choose the search directory by setting xla_",
        *(b"Searched for CUDA in the foll", b"  ", b"You can choose the search dir"),
    ),
    _after(
        b"slow_operation_alarm.cc",
        rb"\*{32}|(?:\[[^\]]*\] )?Very slow compile\?|Trying algorithm .* is taking a while|"
        rb"Constant folding an instruction is taking|  %|This isn't necessarily a bug; constant-folding|"
        rb"If you'd like to file a bug, run with envvar XLA_FLAGS|" + _EMPTY,
        *(b"****", b"[", b"Very slow comp", b"Trying algorithm ", b"Constant folding an ", b"  %"),
        *(b"This isn't necess", b"If you'd like to file a bug"),
    ),
)


def is_tf_log_line(line: bytes) -> bool:
    """Returns whether a line is an info or a warning of TensorFlow's, which users cannot act on."""
    return _LINE.match(line) is not None or line.rstrip(b"\r\n") == _NO_GPUS


def _may_start(start: bytes, text: bytes) -> bool:
    return start.startswith(text) or text.startswith(start)


def _may_start_with_date(start: bytes) -> bool:
    return _may_start(re.sub(rb"\d", b"0", start[: len(_DATED_START)]), _DATED_START)


class TfLogFilter:
    """Removes TensorFlow's log lines from a stream, and repeated tracebacks in them.

    Nothing else is held back: a progress bar need not end its line.
    """

    def __init__(self) -> None:
        self._held = b""
        self._inside_line = False
        self._head = b""  # of the message whose lines may follow
        self._errors = PythonOpErrors()

    def feed(self, data: bytes) -> bytes:
        """Adds `data`; returns what is to be shown now."""
        shown = bytearray()
        for part in (self._held + data).splitlines(keepends=True):
            self._held = b""
            ended = part.endswith((b"\n", b"\r"))
            if not self._inside_line and not ended and (self._may_become_log_line(part) or self._errors.holds(part)):
                self._held = part
                break
            # Also after an unfinished line: TensorFlow writes a message at once, in the middle of a bar or not.
            if ended and is_tf_log_line(part):
                shown += self._errors.begin(part)
                self._head = part
                continue
            is_part, text = self._errors.take(part) if ended else (False, self._errors.rest())
            shown += text
            if is_part or (ended and self._is_log_line(part)):
                continue
            shown += part
            self._inside_line = not ended
            self._head = b""
        return bytes(shown)

    def rest(self) -> bytes:
        """Returns what was held back as the possible start of a log line, when the stream has ended."""
        held, self._held = self._held, b""
        return self._errors.rest() + (b"" if self._is_log_line(held) else held)

    def _is_log_line(self, line: bytes) -> bool:
        if line == b"\n" and self._inside_line:  # the end of somebody else's
            return False
        return is_tf_log_line(line) or any(found.lines.match(line) for found in self._continuations())

    def _may_become_log_line(self, start: bytes) -> bool:
        """Returns whether a line that starts so can be a log line once it is complete."""
        if _START.match(start) or _may_start_with_date(start):
            return True
        if _may_start(start, _WARNING) or _may_start(start, _NO_GPUS):
            return True
        return any(_may_start(start, text) for found in self._continuations() for text in found.starts)

    def _continuations(self) -> Iterator[_Continuation]:
        """Yields what may follow in the message that has just been taken out; nothing elsewhere."""
        return (found for found in _CONTINUATIONS if self._head and found.head in self._head)


def last_words(said: bytes) -> str:
    """The last lines that a process wrote, without TensorFlow's own, to follow the text of an error."""
    lines = TfLogFilter()
    shown = (lines.feed(said) + lines.rest()).decode(errors="replace")
    kept = [printable(line) for line in shown.splitlines() if line.strip()][-_LAST_LINES:]
    return "".join(["\nIt said last:" if kept else "", *(f"\n  {line}" for line in kept)])


class LineFilter(Protocol):
    """Takes lines out of a stream that comes in pieces."""

    def feed(self, data: bytes) -> bytes: ...
    def rest(self) -> bytes: ...


class NcclLineFilter:
    """Removes the line with which NCCL says its version on standard output.

    Nothing else is held back but the start of a line that may become this one.
    """

    _TEXT = b"NCCL version "
    _LINE = re.compile(rb"NCCL version \d+\.\d+\.\d+\S*\r?\n$")

    def __init__(self) -> None:
        self._held = b""
        self._inside_line = False

    def feed(self, data: bytes) -> bytes:
        """Adds `data`; returns what is to be shown now."""
        shown = bytearray()
        for part in (self._held + data).splitlines(keepends=True):
            self._held = b""
            ended = part.endswith((b"\n", b"\r"))
            if not self._inside_line and not ended and _may_start(part, self._TEXT):
                self._held = part
            elif self._inside_line or self._LINE.match(part) is None:
                shown += part
                self._inside_line = not ended
        return bytes(shown)

    def rest(self) -> bytes:
        """Returns what was held back, when the stream has ended."""
        held, self._held = self._held, b""
        return held
