"""A checkpoint in the making: it writes files and notes what the marker is to say of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FORMAT = 2

FileContent = bytes | memoryview
"""Of a file; a memoryview is of uint8."""


@dataclass(frozen=True)
class FileDigest:
    """What a marker says of a file.

    Attributes:
        size: Its bytes.
        checksum: Its CRC-32.
    """

    size: int
    checksum: int


class PendingCheckpoint:
    """The files of a checkpoint.

    Args:
        write: Writes one by its name, whole; where there is a disk, the disk has it when it returns.
    """

    def __init__(self, write: Callable[[str, FileContent], None]) -> None:
        self._write = write
        self._told: dict[str, FileDigest] = {}

    def add(self, name: str, content: FileContent) -> None:
        """Writes a file.

        Args:
            name: A new one.
            content: Not changed meanwhile. The checksum is of this memory, so that damage on the way to the disk is
                found, too.

        Raises:
            OSError: It cannot be written.
        """
        self._write(name, content)
        self._told[name] = FileDigest(len(content), zlib.crc32(content))

    def marker(self) -> dict[str, Any]:
        """What the marker is to say, in JSON's types."""
        told = {name: {"bytes": file.size, "crc32": file.checksum} for name, file in sorted(self._told.items())}
        return {"format": FORMAT, "files": told}
