"""Where workers that were asked to stop can all stop together: decided from what each has begun, without any effect.

A worker that stopped by itself would leave the others in a step that never ends. So each says, held, how many batches
it has begun; those may differ by what one is behind. All can finish as many as any has begun.
"""

from __future__ import annotations

from collections.abc import Iterable


class StopPoint:
    """Collects the answers of held workers.

    Args:
        asked: The workers that were told to hold.
    """

    def __init__(self, asked: Iterable[int]) -> None:
        self._silent = set(asked)
        self._begun: dict[int, int] = {}

    @property
    def silent(self) -> tuple[int, ...]:
        """The workers that have not answered."""
        return tuple(sorted(self._silent))

    def answer(self, index: int, begun: int | None) -> None:
        """Notes what a worker has begun; None when it is in no `fit`, or is gone."""
        self._silent.discard(index)
        if begun is not None:
            self._begun[index] = max(begun, self._begun.get(index, 0))

    def after(self) -> int | None:
        """After how many batches to stop; None when no worker is where it could stop."""
        return max(self._begun.values(), default=None)
