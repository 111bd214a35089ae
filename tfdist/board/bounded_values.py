"""Values of an answer, bounded: what a run directory holds may be anybody's, and of any length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from tfdist.text import printable

MOST_LETTERS = 300
"""Of a name or a sentence."""
_MOST_LINE_LETTERS = 2000

_Any = TypeVar("_Any")


def bounded(value: Any) -> Any:
    """A value for JSON: texts cut, in one line and without controls, numbers that JSON lacks as null."""
    if isinstance(value, str):
        return bounded_text(value)
    if isinstance(value, dict):
        return {bounded_text(str(name)): bounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [bounded(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def bounded_text(text: str, most: int = MOST_LETTERS) -> str:
    """A text in one line, cut where it is longer, without what would turn or hide the text around it."""
    return printable(text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}")


def bounded_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a text, each cut where it is longer; tabs become spaces."""
    return [bounded_text(line[:_MOST_LINE_LETTERS].expandtabs(4), _MOST_LINE_LETTERS) for line in lines]


def thinned(values: Sequence[_Any], most: int) -> Sequence[_Any]:
    """As many values at most, evenly spaced, with the last one."""
    every = max(1, math.ceil(len(values) / most))
    return values[(len(values) - 1) % every :: every]
