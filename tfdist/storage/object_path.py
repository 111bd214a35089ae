"""A URL with what checkpoints need of `pathlib.Path`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tfdist.storage.object_store import Content, ObjectStore


@dataclass(frozen=True)
class ObjectFileStatus:
    """The status of an object, as `os.stat_result` names it.

    Attributes:
        st_size: Its bytes.
    """

    st_size: int


class ObjectPath:
    """A URL in a store. Its errors are `OSError`, as those of a local path.

    Args:
        store: The store.
        url: The URL, such as `s3://bucket/folder`.
    """

    def __init__(self, store: ObjectStore, url: str) -> None:
        self.store = store
        self._url = url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.store, f"{self._url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self._url.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """Without the last part."""
        return ObjectPath(self.store, self._url.rpartition("/")[0])

    def exists(self) -> bool:
        """Returns whether there is such an object."""
        try:
            self.store.status(self._url)
        except FileNotFoundError:
            return False
        return True

    def stat(self) -> ObjectFileStatus:
        """Its size."""
        return ObjectFileStatus(self.store.status(self._url).size)

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yields what lies directly below it."""
        return iter([self / name for name in self.store.children(self._url)])

    def open(self, mode: str = "rb") -> BinaryIO:
        """Opens it for reading bytes."""
        return self.store.open(self._url)

    def write_bytes(self, content: Content) -> None:
        """Writes it as a whole."""
        self.store.write(self._url, content)

    def mkdir(self) -> None:
        """Makes the folder and those above it, where the store has folders."""
        self.store.make_folder(self._url)

    def unlink(self) -> None:
        """Removes it."""
        self.store.remove(self._url)

    def rmtree(self) -> None:
        """Removes all below it."""
        self.store.remove_below(self._url)
