"""Reads JSON that somebody else may have written: bounded in size, in depth and in the digits of its integers.

What passes can be written as JSON again, shown in an error and added to a float, which Python refuses for values that
are nested more deeply than its stack, and for integers beyond every float.
"""

from __future__ import annotations

import json
from typing import Any

MOST_DEPTH = 100
"""Lists and objects inside one another; tfdist writes ten or so."""

MOST_DIGITS = 300
"""Of an integer; the greatest float has 309."""


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has a number of {len(digits):,} digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def parse(text: str | bytes, most_bytes: int | None = None) -> Any:
    """The value of a JSON text.

    Args:
        text: The text; bytes are UTF-8.
        most_bytes: A longer one is not read; None where the length is bounded already.

    Raises:
        ValueError: It is longer, nested too deeply, has an integer of too many digits, or is something else than JSON.
    """
    if most_bytes is not None and len(text) > most_bytes:
        raise ValueError(f"it has more than {most_bytes:,} bytes")
    try:
        value = _DECODER.decode(text.decode() if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _is_deep(value):
        raise ValueError("it is nested too deeply")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_DEPTH):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inner += [entry for entry in part.values() if isinstance(entry, dict | list)]
            elif isinstance(part, list):
                inner += [entry for entry in part if isinstance(entry, dict | list)]
        if not inner:
            return False
        level = inner
    return True
