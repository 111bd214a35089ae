"""Signals that end a verification."""

from __future__ import annotations

from tfdist.launch.signals import LauncherStopped, Signals

STOPPED = (129, 130, 143)
"""What a job exits with that a signal to its launcher ended."""


class Interrupted(Exception):
    """A signal ended a run, and with it the verification.

    Attributes:
        code: The exit code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def check(signals: Signals) -> None:
    """Raises `Interrupted` when a signal has come."""
    try:
        signals.check()
    except LauncherStopped as stopped:
        raise Interrupted(stopped.exit_code) from None
