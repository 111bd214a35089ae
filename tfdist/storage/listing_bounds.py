"""Bounds of a list of objects, which comes by pages: a store that always says that there is more has no end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_NAME_BYTES = 1024
"""Of one name in S3."""

MOST_TOKEN_LETTERS = 8192
"""Of what asks for the next page."""

_LONG_LIST, _LEAST_NAMES = 1000, 5
"""A list of so many pages has at least so many names in a page; S3 has up to a thousand."""

_FEWER = "Name a folder with fewer objects below it"


@dataclass
class ListingBounds:
    """The limits of one list: what it may take, less what it has taken.

    Attributes:
        pages: The most pages, each of a thousand names in S3.
        letters: The most letters of all names together.
        seconds: The longest time.
        clock: Gives the time, in seconds.
    """

    pages: int = 10_000
    letters: int = 256 << 20
    seconds: float = 600.0
    clock: Callable[[], float] = time.monotonic
    _begun: float = field(init=False)
    _read: int = field(init=False, default=0)
    _names: int = field(init=False, default=0)
    _tokens: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    def fault(self, names: list[str], token: object) -> str | None:
        """Returns what is wrong with the next page, in words; None for nothing.

        Args:
            names: The names in it.
            token: By which the store is asked for the page after it; None for the last page.
        """
        self._read += 1
        self._names += len(names)
        self.pages -= 1
        self.letters -= sum(map(len, names))
        if any(len(name.encode(errors="replace")) > MOST_NAME_BYTES for name in names):
            return f"It has a name of more than {MOST_NAME_BYTES:,} bytes"
        if self.letters < 0:
            return f"Its names take too much memory. {_FEWER}"
        return None if token is None else self._fault_of_more(token)

    def _fault_of_more(self, token: object) -> str | None:
        if not isinstance(token, str) or not 0 < len(token) <= MOST_TOKEN_LETTERS or token in self._tokens:
            return "It would have no end"
        if self._read >= _LONG_LIST and self._names < _LEAST_NAMES * self._read:
            return f"It would have no end: {self._read:,} pages have {self._names:,} names"
        self._tokens.add(token)
        if self.pages <= 0:
            return f"It has more pages than are read. {_FEWER}"
        if self.clock() - self._begun > self.seconds:
            return f"It has not ended after {self.seconds:g} s. {_FEWER}"
        return None
