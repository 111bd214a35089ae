"""What a program shows on a pseudo-terminal."""

from __future__ import annotations

import os
import re


def shown(master: int, lines: int) -> str:
    """What comes to the terminal's other end, up to the end of so many lines."""
    text = b""
    while text.count(b"\n") < lines:
        text += os.read(master, 65536)
    return text.decode().replace("\r\n", "\n")


def shown_until(master: int, last: str) -> str:
    """What comes to the terminal's other end, up to `last` at the end of a piece."""
    text = b""
    while not text.endswith(last.encode()):
        text += os.read(master, 65536).replace(b"\r\n", b"\n")
    return text.decode()


def screen_after(written: bytes) -> list[str]:
    """The lines of a screen on which this was written, without empty ones at its end; it knows no other sequences."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[\d+[AK]|.", written.decode(), re.DOTALL):
        match part:
            case "\n":
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            case "\r":
                column = 0
            case "\x1b[2K":
                lines[row] = ""
            case "\x1b[1A":
                row -= 1
            case _:
                assert part.isprintable(), part
                lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
                column += 1
    while lines and not lines[-1]:
        lines.pop()
    return lines
