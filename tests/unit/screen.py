"""What a program shows on a pseudo-terminal."""

from __future__ import annotations

import os


def shown(master: int, lines: int) -> str:
    """What comes to the terminal's other end, up to the end of so many lines."""
    text = b""
    while text.count(b"\n") < lines:
        text += os.read(master, 65536)
    return text.decode().replace("\r\n", "\n")
