"""TensorFlow's own log lines: kept in the worker's log, not shown on the terminal.

TensorFlow 2.21 writes them by Abseil: level, date, time, thread, `file:line]`, text. A message may go on in further
lines without such a beginning. Python's `absl.logging` writes the same beginning with a Python file's name: those lines
are the script's own, and are shown.
"""

from __future__ import annotations

import re

_WARNING = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
_WHERE = rb"\d{4} \d\d:\d\d:\d+\.\d+ +\d+ "
_LINE = re.compile(
    re.escape(_WARNING) + rb"|[IW]" + _WHERE + rb"[\w./-]+\.(?:cc|cpp|cu|h):\d+\] "
    # On a machine without a GPU, or with a library that registers twice, these are no errors, though TensorFlow calls
    # them so.
    rb"|E" + _WHERE + rb"(?:cuda_platform\.cc:\d+\] failed call to cuInit"
    rb"|cuda_\w+\.cc:\d+\] Unable to register cu\w+ factory)"
)
_BEGINNING = re.compile(rb"[IWE](?:\d{0,4}$|\d{4} )")

_CPU_FEATURES = b"To enable the following instructions: "
_TASK = b"/job:"
_CONTINUATION = re.compile(
    # After the message on the processor's instructions, and after that on who has not connected yet.
    re.escape(_CPU_FEATURES) + rb"[\w .,-]+rebuild TensorFlow|" + re.escape(_TASK) + rb"\w+/replica:\d+/task:\d+\s*$"
)


def is_tf_log_line(line: bytes) -> bool:
    """Whether a line is an information or a warning of TensorFlow's C++ side, which users cannot act on."""
    return _LINE.match(line) is not None


def _may_begin(beginning: bytes, text: bytes) -> bool:
    return beginning.startswith(text) or text.startswith(beginning)


class TfLogFilter:
    """Takes the noise out of a stream, and holds nothing else back: a progress bar need not end its line."""

    def __init__(self) -> None:
        self._held = b""
        self._inside_line = False
        self._after_noise = False

    def feed(self, data: bytes) -> bytes:
        """Adds `data`; returns what is to be shown now."""
        shown = bytearray()
        for part in (self._held + data).splitlines(keepends=True):
            self._held = b""
            ended = part.endswith((b"\n", b"\r"))
            if not self._inside_line and not ended and self._may_become_noise(part):
                self._held = part
                break
            # Also behind an unfinished line: a message of TensorFlow's is one write, in the middle of a bar or not.
            if ended and self._is_noise(part):
                self._after_noise = True
                continue
            shown += part
            self._inside_line = not ended
            self._after_noise = False
        return bytes(shown)

    def rest(self) -> bytes:
        """What was held back as the possible beginning of noise, when the stream has ended."""
        held, self._held = self._held, b""
        return b"" if self._is_noise(held) else held

    def _is_noise(self, line: bytes) -> bool:
        return is_tf_log_line(line) or (self._after_noise and _CONTINUATION.match(line) is not None)

    def _may_become_noise(self, beginning: bytes) -> bool:
        """Whether a line that begins so can be noise when it is whole."""
        if _BEGINNING.match(beginning) or _may_begin(beginning, _WARNING):
            return True
        return self._after_noise and (_may_begin(beginning, _CPU_FEATURES) or _may_begin(beginning, _TASK))
