"""The interface of all stores: whole objects, by URL. Their errors are `OSError`, as those of local files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Protocol

from tfdist.storage.file_content import FileContent

MOST_OBJECT_BYTES = 1 << 47
"""More than any object has; S3 itself takes 50 TB."""

MOST_WHOLE_BYTES = 1 << 30
"""Of an object that is read by a `read` without a size; larger ones are read in parts."""


class NoAnswerError(OSError):
    """A store did not answer in time, or as one does that is overloaded: a later request may succeed."""


Content = bytes | memoryview | FileContent
"""The content of an object; a memoryview has uint8."""


@dataclass(frozen=True)
class ObjectStatus:
    """The status of an object.

    Attributes:
        size: Its bytes.
        modified_ns: When it was last written, in ns since 1970.
    """

    size: int
    modified_ns: int


class ObjectStore(Protocol):
    """Objects of one kind of URL. An object is written as a whole: others see all of it, or what was there before.

    Every call ends within a bound. What is not there raises `FileNotFoundError`, what is refused `PermissionError`;
    a bucket that does not exist, and what else fails, another `OSError`, never `FileNotFoundError`. A store
    that is out of order for a while raises `NoAnswerError`, where that can be told.
    """

    def status(self, url: str) -> ObjectStatus:
        """The status of an object."""

    def open(self, url: str) -> BinaryIO:
        """Opens an object for reading; it can be sought in."""

    def write(self, url: str, content: Content) -> None:
        """Writes an object, in place of one that is there."""

    def children(self, url: str) -> list[str]:
        """The names of what lies directly below a URL, folders among them."""

    def matching(self, pattern: str) -> list[str]:
        """The URLs of objects that match a pattern, in which `*`, `?` and `[...]` match no slash, and `**` any."""

    def make_folder(self, url: str) -> None:
        """Makes a folder, where the store has folders."""

    def remove(self, url: str) -> None:
        """Removes an object; one that is not there may be an error."""

    def remove_below(self, url: str) -> None:
        """Removes all objects below a URL."""
