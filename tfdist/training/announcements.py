"""Announcements: what a run says of itself on the terminal, and with `--quiet` in its log alone."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TextIO

_log = logging.getLogger("tfdist")

Announce = Callable[[str], None]


def announcer(*, quiet: bool, stream: TextIO | None = None) -> Announce:
    """A function that says a text: on `stream` (default: stdout), or quietly in this worker's log."""
    if quiet:
        return lambda text: _log.info("%s", text)
    return lambda text: print(text, file=stream or sys.stdout, flush=True)
