"""Coordinator: how a launcher tells the others of its job what happens, from the job's start to its end.

The launcher that has the chief leads: it hears of every worker, decides for all, and passes events on. In a job of one
launcher, `SoleLauncher` leads and has no others to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tfdist.launch.peers.messages import Event
from tfdist.launch.peers.root_cause import root_cause_first
from tfdist.net.bounded_wait import Source
from tfdist.rundir.failure import Failure


class Coordinator(Protocol):
    """A launcher's connection to the other launchers of its job."""

    leads: bool
    """True if this launcher decides for all."""
    remote: tuple[int, ...]
    """Workers that other launchers start."""

    def sockets(self) -> Sequence[Source]:
        """Returns what to wait on for `events`."""

    def is_connected(self) -> bool:
        """Returns whether events can still come from another launcher."""

    def events(self) -> list[Event]:
        """The events that have come; never waits."""

    def tell(self, event: Event) -> None:
        """Sends an event to the other launchers."""

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        """Joins this launcher's failures with the others', so that all name the same first one.

        Waits at most `timeout` seconds for the others, and leaves out those that do not answer.
        """

    def keep(self, events: Sequence[Event]) -> None:
        """Makes `events` return these once more: they belong to the next attempt."""

    def begin_again(self) -> None:
        """Starts another attempt: from now on a launcher that hangs up, or already has, is lost."""

    def close(self) -> None:
        """Hangs up."""


class SoleLauncher:
    """The coordinator of a job that has one launcher."""

    leads = True
    remote: tuple[int, ...] = ()

    def sockets(self) -> Sequence[Source]:
        return ()

    def is_connected(self) -> bool:
        return False

    def events(self) -> list[Event]:
        return []

    def tell(self, event: Event) -> None:
        """There are no others."""

    def settle(self, failures: Sequence[Failure], timeout: float) -> tuple[Failure, ...]:
        return root_cause_first(failures)

    def keep(self, events: Sequence[Event]) -> None:
        """There are no others."""

    def begin_again(self) -> None:
        """There are no others."""

    def close(self) -> None:
        """There is nothing to close."""
