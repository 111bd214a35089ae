"""Structure of a pruning: single weights, a pattern such as 2:4, or whole channels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from tfdist.errors import UsageError
from tfdist.text import safe_repr

UNSTRUCTURED, CHANNELS = "unstructured", "channels"

MOST_OF_PATTERN = 64
"""The longest pattern: beyond it, single weights are as good."""

_PATTERN = re.compile(r"(\d{1,4}):(\d{1,4})")
_EXPECTED = "Expected unstructured, channels, or a pattern N:M such as 2:4, where N of each M weights stay."


@dataclass(frozen=True)
class Structure:
    """The structure of a pruning: what is pruned together.

    Attributes:
        name: `unstructured`, `channels` or `N:M`.
        kept: Of a pattern N:M the weights that stay of each `group`, N; 0 otherwise.
        group: Of a pattern M, the weights along the inputs of a layer; 0 otherwise.
    """

    name: str
    kept: int = 0
    group: int = 0

    @classmethod
    def of(cls, name: str) -> Self:
        """The structure that a user names.

        Raises:
            UsageError: There is none of that name.
        """
        if name in (UNSTRUCTURED, CHANNELS):
            return cls(name)
        found = _PATTERN.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            received = safe_repr(name)
            raise UsageError(f"There is no structure {received} of a pruning. {_EXPECTED} Received: {received}")
        kept, group = int(found[1]), int(found[2])
        if not 0 < kept < group <= MOST_OF_PATTERN:
            raise UsageError(
                f"The pattern {name} prunes nothing, everything, or is too long. Expected N:M with 0 < N < M <= "
                f"{MOST_OF_PATTERN}, such as 2:4. Received: {name}"
            )
        return cls(name, kept, group)

    @property
    def is_pattern(self) -> bool:
        """True if it is N:M."""
        return self.group > 0

    def sparsity(self, asked: float | None) -> float:
        """The share of the weights, or of the channels, that is pruned in the end.

        Args:
            asked: What the user wants; None for what a pattern says itself.

        Raises:
            UsageError: It is no share, or not the pattern's.
        """
        own = 1 - self.kept / self.group if self.is_pattern else None
        if asked is None:
            if own is None:
                raise UsageError(
                    f"The structure {self.name} needs a sparsity: the share that is pruned. Expected a number between "
                    "0 and 1, such as 0.8. Received: none"
                )
            return own
        if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 < asked < 1:
            hint = f" For {asked:g} % write {asked / 100:g}." if _is_percentage(asked) else ""
            raise UsageError(
                f"A sparsity is the share that is pruned. Expected a number between 0 and 1, such as 0.8.{hint} "
                f"Received: sparsity={safe_repr(asked)}"
            )
        if own is not None and abs(asked - own) > 1e-9:
            raise UsageError(
                f"The pattern {self.name} prunes {own:g} of the weights, and nothing else. Expected sparsity={own:g}, "
                f"or none. Received: sparsity={safe_repr(asked)}"
            )
        return float(asked)


def _is_percentage(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 < value < 100
