"""Asks the workers of a group that hangs where they are, and waits for their answers for a while."""

from __future__ import annotations

from collections.abc import Iterable

from tfdist.launch.peers.messages import WorkerStacks

SECONDS = 4.0
"""How long the answers may take in all; half of it before a worker's stacks are dumped by a signal."""


class StackRequest:
    """The answers of workers that were asked where they are.

    Args:
        asked: The workers.
        now: When they were asked, in seconds of the clock.
    """

    def __init__(self, asked: Iterable[int], now: float) -> None:
        self._silent = set(asked)
        self._begun = now
        self.answers: dict[int, WorkerStacks] = {}

    @property
    def silent(self) -> tuple[int, ...]:
        """The workers that have not answered."""
        return tuple(sorted(self._silent))

    def take(self, answer: WorkerStacks) -> None:
        """Notes an answer."""
        if answer.index in self._silent:
            self._silent.discard(answer.index)
            self.answers[answer.index] = answer

    def wants_signal(self, now: float) -> bool:
        """Whether it is time for the signal that makes even a stuck interpreter dump its stacks."""
        return bool(self._silent) and now - self._begun > SECONDS / 2

    def is_over(self, now: float) -> bool:
        """Whether all have answered, or their time is up."""
        return not self._silent or now - self._begun > SECONDS
