"""Standard streams that were closed before the command began, as cron, supervisors and `>&-` leave them."""

from __future__ import annotations

import os
import sys

_MODES = {"stdin": (0, "r"), "stdout": (1, "w"), "stderr": (2, "w")}


def open_closed_streams() -> None:
    """Opens `/dev/null` in the place of each standard stream that is closed.

    Python has no stream then, and the next file or socket that is opened gets its number: what a library prints would
    be written into it.
    """
    for name, (number, mode) in _MODES.items():  # in the order of the numbers: the lowest that is free is given
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open as long as the process
