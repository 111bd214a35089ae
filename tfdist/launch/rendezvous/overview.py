"""Overview: what the chief's launcher, which alone dials all others, tells them of who is here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.net.line_socket import LineError, Message
from tfdist.text import printable

_MOST_LINES = 64
_MOST_CHARACTERS = 2000
"""Of a line; a name of a host has 253 at most."""


@dataclass(frozen=True)
class Overview:
    """Who is here, as the chief's launcher sees it.

    Attributes:
        host: Its machine's name.
        waiting: Who is here and who is not, in one line.
        missing: How many workers have not come.
        lines: What was seen of them, as in the error.

    Raises:
        ValueError: It is not what a launcher sends.
    """

    host: str
    waiting: str
    missing: int
    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        texts = [self.host, self.waiting, *self.lines]
        if len(self.lines) > _MOST_LINES or type(self.missing) is not int or self.missing < 0:
            raise ValueError("expected a number and a few lines")
        # They are printed: no control characters.
        if not all(isinstance(text, str) and len(text) <= _MOST_CHARACTERS and text.isprintable() for text in texts):
            raise ValueError("expected texts that can be printed")

    @classmethod
    def clipped(cls, host: str, waiting: str, missing: int, lines: Sequence[str]) -> Overview:
        """An overview of texts that may be longer than what is sent."""
        shown = tuple(printable(line)[:_MOST_CHARACTERS] for line in lines[:_MOST_LINES])
        return cls(host, printable(waiting)[:_MOST_CHARACTERS], missing, shown)

    def to_message(self) -> Message:
        """The overview as it is sent."""
        fields: dict[str, Any] = {**vars(self), "lines": list(self.lines)}
        return {"overview": fields}

    @classmethod
    def from_message(cls, said: Message) -> Overview:
        """Returns what the chief's launcher sent, under `overview`.

        Raises:
            LineError: It is not an overview.
        """
        try:
            return cls(said["host"], said["waiting"], said["missing"], tuple(said["lines"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LineError(f"an overview that is not understood: {error}") from None
