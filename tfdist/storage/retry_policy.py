"""When a request that failed is made again: a decision, without a clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of what one request may take, with all its attempts.

    Attributes:
        seconds: In all.
        attempts: The most attempts.
        first_attempts: The most attempts while no request has been answered, when a wrong address is likelier than a
            store that is out of order for a while.
        attempt_seconds: For one attempt.
        first_wait: Seconds between the first two attempts; each later wait is twice as long.
        longest_wait: The most seconds between two.
    """

    seconds: float = 120.0
    attempts: int = 20
    first_attempts: int = 5
    attempt_seconds: float = 60.0
    first_wait: float = 0.2
    longest_wait: float = 15.0

    def bound(self, elapsed: float) -> float:
        """How many seconds an attempt may take that begins after so many."""
        return max(min(self.attempt_seconds, self.seconds - elapsed), 0.01)

    def wait(self, failed: int, elapsed: float, share: float, *, is_known: bool = True) -> float | None:
        """How long to wait for the next attempt; None to give up.

        Args:
            failed: Attempts that failed, at least 1.
            elapsed: Seconds since the first began.
            share: A random number from 0 to 1, so that those that failed together do not come back together.
            is_known: Whether the store has answered before.
        """
        wait = min(self.longest_wait, self.first_wait * 2 ** (failed - 1)) * (0.5 + share / 2)
        most = self.attempts if is_known else self.first_attempts
        return None if failed >= most or elapsed + wait >= self.seconds else wait
