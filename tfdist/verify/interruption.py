"""Interruption of a verification by a signal."""

from __future__ import annotations

from tfdist.launch.signals import LauncherStopped, Signals


class Interrupted(Exception):
    """A signal ended a run and the verification.

    Attributes:
        code: The exit code.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def raise_if_interrupted(signals: Signals) -> None:
    """Raises `Interrupted` when a signal has come."""
    try:
        signals.check()
    except LauncherStopped as stopped:
        raise Interrupted(stopped.exit_code) from None
