"""Standard streams of a command: closed ones are opened, what they show is masked, TensorFlow's lines can be hidden."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from tfdist.text import without_controls

_MODES = {"stdin": (0, "r"), "stdout": (1, "w"), "stderr": (2, "w")}
_BLOCK_BYTES = 1 << 16
_RELAY_SECONDS = 5.0
"""Seconds that the last lines may take: a process that was started meanwhile may keep the pipe open."""


def open_closed_streams() -> None:
    """Opens `/dev/null` in the place of each standard stream that is closed.

    Cron, supervisors and `>&-` leave them closed. Python has no stream then, and the next file or socket that is opened
    gets its number: what a library prints would be written into it.
    """
    for name, (number, mode) in _MODES.items():  # in the order of the numbers: the lowest that is free is given
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open as long as the process


class MaskedText(io.TextIOWrapper):
    """A stream of text in which nothing moves the cursor or clears the screen, whatever a message or a name holds.

    Args:
        unmasked: The stream itself, for what draws on a screen.
    """

    def __init__(self, unmasked: io.TextIOWrapper) -> None:
        super().__init__(
            unmasked.buffer,
            encoding=unmasked.encoding,
            errors=unmasked.errors,
            line_buffering=unmasked.line_buffering,
            write_through=unmasked.write_through,
        )
        self.unmasked = unmasked  # it closes the buffer when it goes

    def write(self, text: str) -> int:
        return super().write(without_controls(text))


def mask_text() -> None:
    """Masks what this process prints as text; what its workers write passes as bytes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is io.TextIOWrapper:  # not one by which somebody else watches
            # A character that the terminal's encoding lacks, in the name of a run, say, must not end a command.
            stream.reconfigure(errors="replace")
            setattr(sys, name, MaskedText(stream))


def for_drawing(stream: TextIO) -> TextIO:
    """A standard stream as it was before it was masked."""
    return stream.unmasked if isinstance(stream, MaskedText) else stream


@contextlib.contextmanager
def tf_lines_hidden() -> Iterator[None]:
    """Hides what TensorFlow's own code writes on stderr in this process, as the terminal of a run does.

    All else is passed on as it comes.
    """
    # Imported here: `tfdist --help` does not need it.
    import threading

    sys.stderr.flush()
    shown = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    relay = threading.Thread(target=_relay, args=(reader, shown), daemon=True)
    relay.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(shown, 2)  # was the last end that wrote: the relay meets the end of the pipe
        relay.join(_RELAY_SECONDS)


def _relay(reader: int, shown: int) -> None:
    from tfdist.tf_log_filter import TfLogFilter

    lines = TfLogFilter()
    with open(reader, "rb", buffering=0) as pipe, open(shown, "wb", buffering=0) as stderr:
        while data := pipe.read(_BLOCK_BYTES):
            stderr.write(lines.feed(data))
        stderr.write(lines.rest())
