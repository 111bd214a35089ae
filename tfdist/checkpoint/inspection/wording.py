"""How tables of checkpoints look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def aligned(rows: Sequence[Sequence[str]], left: Sequence[str] = ()) -> list[str]:
    """A table whose first row names the columns; those in `left` begin at the left, others end at the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    at_left = [name in left for name in rows[0]]
    return [
        "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, at_left, strict=True)
        ).rstrip()
        for row in rows
    ]


def bytes_text(size: float) -> str:
    """`236 kB`, `1.2 GB`: a thousand bytes are a kB."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def age_text(seconds: float) -> str:
    """`40 s`, `12 min`, `5 h`, `3 d`."""
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def plain(text: str) -> str:
    """Text that does nothing to a terminal but stand there, whatever a name in a file has in it."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: null stands for them."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
