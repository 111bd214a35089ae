"""Text for terminals: lines, tables, and sizes, times and counts as people read them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import TextIO

WIDTH = 120
"""Columns of a line that is wrapped."""

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def print_line(text: str, stream: TextIO) -> None:
    """Prints a line on a standard stream, unless nobody reads it any more.

    What Python cannot write it keeps and tries again at its end, where that fails with exit code 120: a stream that is
    gone leads to `/dev/null` from then on. One that is only full for a moment stays what it is.
    """
    try:
        # With `print` an unbuffered stream gets the line's end apart, and what others write there between the two.
        stream.write(text + "\n")
        stream.flush()
    except BlockingIOError:
        return
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def table(rows: Sequence[Sequence[str]], align: str, *, indent: str = "", gap: int = 2) -> list[str]:
    """The lines of a table, with columns as wide as their widest cell.

    Args:
        rows: Cells; all rows have as many. The first row holds the headings, where there are any.
        align: A letter for each column: `l` for left, `r` for right.
        indent: What every line begins with.
        gap: Spaces between two columns.
    """
    widths = column_widths(rows)
    lines = []
    for row in rows:
        cells = zip(row, widths, align, strict=True)
        padded = (cell.rjust(width) if side == "r" else cell.ljust(width) for cell, width, side in cells)
        lines.append(f"{indent}{(' ' * gap).join(padded)}".rstrip())
    return lines


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The length of the longest cell of each column."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def wrap(text: str, head: str = "", indent: int | None = None) -> str:
    """Text behind a head, in lines of 120 columns; longer words and long heads make longer lines.

    Args:
        text: Its own line breaks stay.
        head: What the first line begins with.
        indent: Spaces before the other lines; None: as many as the head is long.
    """
    import textwrap

    after = " " * (len(head) if indent is None else indent)
    width = max(WIDTH, len(head) + 40)
    fill = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False, subsequent_indent=after)
    lines = []
    for number, line in enumerate(text.splitlines()):
        fill.initial_indent = after if number else head
        lines.append(fill.fill(line).rstrip())
    return "\n".join(lines)


def printable(line: str) -> str:
    """A line without what would move the cursor or clear the screen, whatever a message or a name holds."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def safe_str(value: object) -> str:
    """`str` of an object that a user's code has made; where its own `__str__` raises, a text that says so."""
    return _safely(str, value)


def safe_repr(value: object) -> str:
    """`repr` of an object that a user's code has made; where its own `__repr__` raises, a text that says so."""
    return _safely(repr, value)


def _safely(text_of: Callable[[object], str], value: object) -> str:
    try:
        # A subclass of str may have methods of its own, which raise later.
        return str.__str__(text_of(value))
    except (Exception, SystemExit) as error:  # Whatever the user's code raises.
        return f"<{type(value).__qualname__} without a text: its __{text_of.__name__}__ raises {type(error).__name__}>"


def without_controls(text: str) -> str:
    """A text without what a terminal obeys; line breaks and tabs stay."""
    return _CONTROLS.sub("?", text)


def format_bytes(count: float, *, binary: bool = False) -> str:
    """A size in three digits: `999 B`, `1.25 MB`, `12.5 GB`; in powers of 1024 `15.6 GiB`."""
    base, units = (1024, _BINARY) if binary else (1000, _DECIMAL)
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(units) - 1:
        size, unit = size / base, unit + 1
    digits = 0 if unit == 0 or size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{size:.{digits}f} {units[unit]}"


def format_duration(seconds: float) -> str:
    """A length of time: `12.3 ms`, `2.51 s`, `40 s`, `12 min`, `5 h 12 min`, `3 d 4 h`."""
    if seconds < 0.9995:
        return f"{1000 * max(0.0, seconds):.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s" if seconds < 9.995 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def format_clock(seconds: float) -> str:
    """A length of time to a tenth of a second, so that columns of it add up: `1:02:03.4`."""
    tenths = round(10 * seconds)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest // 10:02}.{rest % 10}" if hours else f"{minutes}:{rest // 10:02}.{rest % 10}"


def format_countdown(seconds: float) -> str:
    """A length of time that is left: `0:12`, `4:05`, `1:02:03`, `3 d 4 h`."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_time(seconds: float) -> str:
    """A time since 1970 as the wall clock of this machine shows it: `2026-01-31 12:00:00`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def format_zone(seconds: float) -> str:
    """The zone in which `format_time` gives a time: `CET (UTC+01:00)`, or `UTC`."""
    local = time.localtime(seconds)
    name, offset = time.strftime("%Z", local), time.strftime("%z", local)
    ahead = f"UTC{offset[:3]}:{offset[3:5]}"
    # A zone without a name of its own has its offset for one.
    return "UTC" if name in ("UTC", "GMT") else f"{name} ({ahead})" if name.isalpha() else ahead


def format_count(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in few characters: `0-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)
