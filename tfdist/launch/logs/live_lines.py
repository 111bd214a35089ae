"""Lines at the bottom of a screen that are drawn anew in place; all else is shown above them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_BACK = b"\r"
_CLEAR_LINE = b"\x1b[2K"
_UP = b"\x1b[1A"


class LiveLines:
    """The lines that are shown now. The cursor stays at the end of the last one.

    The methods return what is to be written to the screen.
    """

    def __init__(self) -> None:
        self._shown: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._shown)

    def replace(self, lines: Sequence[bytes]) -> bytes:
        """Other lines instead: none remove them."""
        erased, self._shown = self._erased(), tuple(lines)
        return erased + self._drawn()

    def above(self, data: bytes) -> bytes:
        """`data`, which ends with a newline, above the lines."""
        return self._erased() + data + self._drawn()

    def _erased(self) -> bytes:
        if not self._shown:
            return b""
        return _BACK + _CLEAR_LINE + (_UP + _CLEAR_LINE) * (len(self._shown) - 1)

    def _drawn(self) -> bytes:
        return b"\n".join(self._shown)
