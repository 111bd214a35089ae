"""Standard streams of a command: those that were closed are opened, and TensorFlow's own lines can be hidden."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_MODES = {"stdin": (0, "r"), "stdout": (1, "w"), "stderr": (2, "w")}
_BLOCK_BYTES = 1 << 16
_RELAY_SECONDS = 5.0
"""How long the last lines may take: a process that was started meanwhile may keep the pipe open."""


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
