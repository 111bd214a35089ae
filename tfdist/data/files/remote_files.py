"""Files on any file system: those whose name has a scheme, such as `gs://`, are read by TensorFlow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol

from tfdist.data.files.file_patterns import FilePatterns, matching
from tfdist.data.files.file_stamps import FileStamp
from tfdist.errors import DataError

_SCHEME = "://"


class Readable(Protocol):
    """An open file."""

    def read(self, size: int, /) -> bytes:
        """Returns the next bytes, at most `size`; none at the end."""


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path or pattern names files of a remote file system."""
    return _SCHEME in os.fspath(path)


def names_of(files: FilePatterns) -> tuple[str, ...]:
    """Returns the files that a pattern, a path or a list of these mean, local ones and others, in sorted order.

    Raises:
        DataError: A pattern matches no file, or a file does not exist or cannot be looked for.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
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
    status = _asked("read", name, lambda gfile: gfile.stat(name))
    return FileStamp(int(status.length), int(status.mtime_nsec))


class _Remote:
    """An open remote file. Each read has a bound in time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._file = _asked("read", name, lambda gfile: gfile.GFile(name, "rb"))

    def read(self, size: int, /) -> bytes:
        content: bytes = _asked("read", self._name, lambda _: self._file.read(size))
        return content

    def __enter__(self) -> _Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _matching(pattern: str) -> list[str]:
    found: list[str] = _asked("look for", pattern, lambda gfile: gfile.glob(pattern))
    if not found:
        raise DataError(f"No file matches {pattern}.")
    return found


def _asked(what: str, name: str, call: Callable[[ModuleType], Any]) -> Any:
    """What a call of `tf.io.gfile` returns."""
    # Imported here: a plan of local files need not load TensorFlow.
    import tensorflow as tf

    from tfdist.runtime.remote_file_calls import bounded_call

    try:
        return bounded_call(name, lambda: call(tf.io.gfile))
    except OSError as error:
        raise DataError(
            f"Cannot {what} {name}: {error.strerror}. Expected files that this user may read, on a file system that "
            "answers. Check the address, the network and its credentials."
        ) from error
