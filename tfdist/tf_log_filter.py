"""Filter of TensorFlow's own log lines, which belong in a worker's log and not on the terminal.

TensorFlow 2.21 writes them by Abseil: level, date, time, thread, `file:line]`, text. TensorFlow 2.19 and 2.20 write
most of them with another prefix: date, time, level, path of the file. A message may continue on lines without a prefix.
Python's `absl.logging` writes Abseil's prefix with the name of a Python file: those lines are the script's own, and are
shown.
"""

from __future__ import annotations

import re

from tfdist.python_op_errors import PythonOpErrors

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
    rb"(?:failed call to cuInit|Unable to register cu\w+ factory)|util\.cc:\d+\] oneDNN supports DT_HALF only on )"
)
_START = re.compile(rb"[IWE](?:\d{0,4}$|\d{4} )")
_DATED_START = b"0000-00-00 00:00:00."

_CPU_FEATURES = b"To enable the following instructions: "
_TASK = b"/job:"
_NODE = b"\t [[{{node "
_CONTINUATION = re.compile(
    # After the message about the processor's instructions, after the one about tasks that have not connected, and after
    # the one about an iterator that has ended.
    re.escape(_CPU_FEATURES) + rb"[\w .,-]+rebuild TensorFlow|" + re.escape(_TASK) + rb"\w+/replica:\d+/task:\d+\s*$|"
    + re.escape(_NODE) + rb"\S+\}\}\]\]"
)


def is_tf_log_line(line: bytes) -> bool:
    """Whether a line is an info or a warning from TensorFlow's C++ code, which users cannot act on."""
    return _LINE.match(line) is not None


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
        self._after_log_line = False
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
                self._after_log_line = True
                continue
            is_part, text = self._errors.take(part) if ended else (False, self._errors.rest())
            shown += text
            if is_part or (ended and self._is_log_line(part)):
                continue
            shown += part
            self._inside_line = not ended
            self._after_log_line = False
        return bytes(shown)

    def rest(self) -> bytes:
        """What was held back as the possible start of a log line, when the stream has ended."""
        held, self._held = self._held, b""
        return self._errors.rest() + (b"" if self._is_log_line(held) else held)

    def _is_log_line(self, line: bytes) -> bool:
        return is_tf_log_line(line) or (self._after_log_line and _CONTINUATION.match(line) is not None)

    def _may_become_log_line(self, start: bytes) -> bool:
        """Whether a line that starts so can be a log line once it is complete."""
        if _START.match(start) or _may_start(start, _WARNING) or _may_start_with_date(start):
            return True
        return self._after_log_line and any(_may_start(start, text) for text in (_CPU_FEATURES, _TASK, _NODE))
