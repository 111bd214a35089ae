"""TensorFlow's own log lines: kept in the worker's log, not shown on the terminal."""

from __future__ import annotations

import re

_WARNING = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
_LINE = re.compile(
    re.escape(_WARNING) + rb"|[IW]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ [\w./-]+:\d+\] "
    # On a machine without a GPU this is no error, though TensorFlow calls it one.
    rb"|E\d{4} \d\d:\d\d:\d+\.\d+ +\d+ cuda_platform\.cc:\d+\] failed call to cuInit"
)
_BEGINNING = re.compile(rb"[IWE](?:\d{0,4}$|\d{4} )")


def is_noise(line: bytes) -> bool:
    """Whether a line is an information or a warning of TensorFlow's C++ side, which users cannot act on."""
    return _LINE.match(line) is not None


def _may_become_noise(beginning: bytes) -> bool:
    """Whether a line that begins so can be noise when it is whole."""
    return _BEGINNING.match(beginning) is not None or beginning.startswith(_WARNING) or _WARNING.startswith(beginning)


class NoiseFilter:
    """Takes the noise out of a stream, and holds nothing else back: a progress bar need not end its line."""

    def __init__(self) -> None:
        self._held = b""
        self._inside_line = False

    def feed(self, data: bytes) -> bytes:
        """Adds `data`; returns what is to be shown now."""
        shown = bytearray()
        for part in (self._held + data).splitlines(keepends=True):
            self._held = b""
            ended = part.endswith((b"\n", b"\r"))
            if not self._inside_line and not ended and _may_become_noise(part):
                self._held = part
                break
            if self._inside_line or not is_noise(part):
                shown += part
                self._inside_line = not ended
        return bytes(shown)

    def rest(self) -> bytes:
        """What was held back as the possible beginning of noise, when the stream has ended."""
        held, self._held = self._held, b""
        return b"" if is_noise(held) else held
