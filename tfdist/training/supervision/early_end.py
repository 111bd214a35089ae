"""The end of a worker before that of its script: no code of the script's runs any more, its exit handlers included."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from tfdist.errors import TfdistError
from tfdist.launch.environment import Assignment
from tfdist.rundir import State
from tfdist.training.supervision.error_report import report
from tfdist.training.supervision.launcher_link import link_of

_OTHERS_SECONDS = 60.0
"""Seconds that the others may take to come to their ends."""


def end_early(assignment: Assignment) -> NoReturn:
    """Ends this process as one whose script is done; all workers come to their ends together."""
    link = link_of(assignment)
    _flush()
    link.heartbeat.finish(State.FINISHED)
    if link.channel is not None:
        link.channel.finished(0, _OTHERS_SECONDS)
    os._exit(0)


def fail_early(error: TfdistError, assignment: Assignment) -> NoReturn:
    """Ends this process, from any thread, with an error that the launcher reports."""
    _flush()
    os._exit(report(error, assignment))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A script may have closed them, or put something else in their place.
        with contextlib.suppress(Exception):
            stream.flush()
