"""A checkpoint that is being written: its files, and the marker with their sizes and checksums."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FORMAT = 2

FileContent = bytes | memoryview
"""The content of a file; a memoryview has uint8."""


@dataclass(frozen=True)
class FileDigest:
    """Size and checksum of a file, as a marker has them.

    Attributes:
        size: Its bytes.
        checksum: Its CRC-32.
    """

    size: int
    checksum: int


class PendingCheckpoint:
    """The files of a checkpoint.

    Args:
        write: Writes a whole file by its name; when it returns, a local file is on the disk.
        generation: Of the start that makes it, see `GenerationClaim`; 0 where none has claimed the folder.
    """

    def __init__(self, write: Callable[[str, FileContent], None], generation: int = 0) -> None:
        self._write = write
        self._generation = generation
        self._digests: dict[str, FileDigest] = {}

    def add(self, name: str, content: FileContent) -> None:
        """Writes a file.

        Args:
            name: The name of a new file.
            content: Not changed meanwhile. The checksum is of this memory, so that damage on the way to the disk is
                found, too.

        Raises:
            OSError: It cannot be written.
        """
        self._write(name, content)
        self._digests[name] = FileDigest(len(content), zlib.crc32(content))

    def adopt(self, name: str, digest: FileDigest) -> None:
        """Takes a file that another worker has written, and that is on the disk.

        Args:
            name: The name of a file beside the others.
            digest: Of the memory that it was written from.
        """
        self._digests[name] = digest

    def marker(self) -> dict[str, Any]:
        """The content of the marker, in JSON's types."""
        files = {name: {"bytes": file.size, "crc32": file.checksum} for name, file in sorted(self._digests.items())}
        return {"format": FORMAT, **({"generation": self._generation} if self._generation else {}), "files": files}
