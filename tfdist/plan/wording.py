"""Sizes in words."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_of(count: int) -> str:
    """Bytes for people, in three digits: `999 B`, `1.25 MB`, `12.5 GB`."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    if unit == 0:
        return f"{count} B"
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {_UNITS[unit]}"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
