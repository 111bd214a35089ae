"""Files on any file system: those whose name has a scheme, such as `gs://` or `s3://`, are in a store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from tfdist.data.files.file_facts import FileStamp
from tfdist.data.files.file_patterns import FilePatterns, check_scheme, matching
from tfdist.errors import DataError, StoreError
from tfdist.runtime.object_stores import store_of
from tfdist.storage.object_store import NoAnswerError, ObjectStore
from tfdist.url_schemes import is_url

T = TypeVar("T")


class Readable(Protocol):
    """An open file."""

    def read(self, size: int, /) -> bytes:
        """Returns the next bytes, at most `size`; none at the end."""


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path or pattern names files of a remote file system."""
    return is_url(path)


def names_of(files: FilePatterns) -> tuple[str, ...]:
    """Returns the files that a pattern, a path or a list of these mean, local ones and others, in sorted order.

    Raises:
        DataError: A pattern matches no file, or a file does not exist or cannot be looked for.
        StoreError: A store does not answer at the moment.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    for pattern in patterns:
        check_scheme(pattern)
    remote = [os.fspath(pattern) for pattern in patterns if is_remote(pattern)]
    local = [pattern for pattern in patterns if not is_remote(pattern)]
    found = {name for pattern in remote for name in _matching(pattern)}
    if local or not remote:
        found |= {str(path) for path in matching(local)}
    return tuple(sorted(found))


@contextlib.contextmanager
def opened(name: str) -> Iterator[Readable]:
    """Opens a file on any file system, to be read from its beginning.

    Raises:
        DataError: It cannot be opened, or reading it fails.
    """
    if not is_remote(name):
        try:
            with open(name, "rb") as file:
                yield file
        except OSError as error:
            raise DataError(f"Cannot read {name}: {error.strerror or error}.") from error
        return
    with _Remote(name) as file:
        yield file


def stamp_of(name: str) -> FileStamp:
    """The size and the time of a file on any file system.

    Raises:
        DataError: It cannot be read.
    """
    if not is_remote(name):
        try:
            return FileStamp.of(os.stat(name))
        except OSError as error:
            raise DataError(f"Cannot read {name}: {error.strerror or error}.") from error
    status = _asked("read", name, lambda store: store.status(name))
    return FileStamp(status.size, status.modified_ns)


class _Remote:
    """An open remote file. Each read has a bound in time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file = _asked("read", name, lambda store: store.open(name))

    def read(self, size: int, /) -> bytes:
        content: bytes = _asked("read", self._name, lambda _: self._file.read(size))
        return content

    def __enter__(self) -> _Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _matching(pattern: str) -> list[str]:
    found: list[str] = _asked("look for", pattern, lambda store: store.matching(pattern))
    if not found:
        raise DataError(f"No file matches {pattern}.")
    return found


def _asked(what: str, name: str, call: Callable[[ObjectStore], T]) -> T:
    """Returns what a call of the store of a name returns."""
    try:
        return call(store_of(name))
    except NoAnswerError as error:
        raise StoreError(
            f"Cannot {what} {name}, as the store does not answer: {error.strerror}. Expected one that does. Start it "
            "again then; if it never has answered, check the address and the network."
        ) from error
    except OSError as error:
        raise DataError(
            f"Cannot {what} {name}: {error.strerror}. Expected files that this user may read, on a file system that "
            "answers. Check the address, the network and its credentials."
        ) from error
