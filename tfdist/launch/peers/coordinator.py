"""How the launchers of one job tell one another what happens, from the job's start to its end.

The launcher that has the chief leads: it hears of every worker, decides for all, and passes news on. In a job of one
launcher, `SoleLauncher` leads and has nobody to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tfdist.launch.agent.first_failure import first_to_last
from tfdist.launch.peers.messages import Event
from tfdist.net.line_socket import LineSocket
from tfdist.rundir.failure import Failure


class Coordinator(Protocol):
    """A launcher's line to the other launchers of its job."""

    leads: bool
    """Whether this launcher decides for all."""
    remote: tuple[int, ...]
    """Workers that other launchers start."""

    def sockets(self) -> Sequence[LineSocket]:
        """What to wait on for `events`."""

    def is_connected(self) -> bool:
        """Whether any other launcher can still say something."""

    def events(self) -> list[Event]:
        """What has come; never waits."""

    def tell(self, event: Event) -> None:
        """Tells the other launchers."""

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        """Joins this launcher's failures with the others', so that all name the same first one.

        Waits for the others `timeout` seconds at most, and does without those that do not answer.
        """

    def keep(self, events: Sequence[Event]) -> None:
        """Has these come from `events` once more: they belong to the next attempt."""

    def begin_again(self) -> None:
        """Begins another attempt: from now on a launcher that hangs up, or has done so, is lost again."""

    def close(self) -> None:
        """Hangs up."""


class SoleLauncher:
    """The control of a job that one launcher runs by itself."""

    leads = True
    remote: tuple[int, ...] = ()

    def sockets(self) -> Sequence[LineSocket]:
        return ()

    def is_connected(self) -> bool:
        return False

    def events(self) -> list[Event]:
        return []

    def tell(self, event: Event) -> None:
        """There is nobody to tell."""

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        return first_to_last(failures)

    def keep(self, events: Sequence[Event]) -> None:
        """Nothing comes from anybody."""

    def begin_again(self) -> None:
        """There is nobody to lose."""

    def close(self) -> None:
        """There is nothing to close."""
