"""A store in memory."""

from __future__ import annotations

import fnmatch
import io
from typing import BinaryIO

from tfdist.storage.object_store import Content, ObjectStatus


class ObjectMemory:
    """A store whose objects are in `objects`, by URL; `fault` is raised by every write while it is set."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: list[str] = []
        self.fault: OSError | None = None

    def below(self, url: str) -> dict[str, bytes]:
        """What lies below a URL, by its path from there."""
        return {name[len(url) + 1 :]: content for name, content in self.objects.items() if name.startswith(f"{url}/")}

    def status(self, url: str) -> ObjectStatus:
        return ObjectStatus(len(self.objects[url]), 0)

    def open(self, url: str) -> BinaryIO:
        if url not in self.objects:
            raise FileNotFoundError(url)
        return io.BytesIO(self.objects[url])

    def write(self, url: str, content: Content) -> None:
        if self.fault is not None:
            raise self.fault
        self.objects[url] = bytes(content)
        self.written.append(url)

    def children(self, url: str) -> list[str]:
        return sorted({name.split("/")[0] for name in self.below(url)})

    def matching(self, pattern: str) -> list[str]:
        return sorted(fnmatch.filter(self.objects, pattern))

    def make_folder(self, url: str) -> None:
        pass

    def remove(self, url: str) -> None:
        self.objects.pop(url, None)

    def remove_below(self, url: str) -> None:
        for name in self.below(url):
            self.remove(f"{url}/{name}")
