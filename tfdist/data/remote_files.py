"""Files on other file systems than this machine's: whatever has a scheme, such as `gs://`, is TensorFlow's to read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Protocol

from tfdist.data.files import matching
from tfdist.data.index_files import Stamp
from tfdist.errors import DataError

_SCHEME = "://"


class Readable(Protocol):
    """An open file."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, `size` at the most, none at the end."""


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path or pattern names files of another file system."""
    return _SCHEME in os.fspath(path)


def names_of(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
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
    """Opens a file of whatever file system for reading from its beginning.

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
    tf = _tensorflow()
    try:
        with tf.io.gfile.GFile(name, "rb") as file:
            yield file
    except tf.errors.OpError as error:
        raise DataError(f"Cannot read {name}: {error.message}") from error


def stamp_of(name: str) -> Stamp:
    """The size and the time of a file of whatever file system.

    Raises:
        DataError: It cannot be looked at.
    """
    if not is_remote(name):
        try:
            return Stamp.of(os.stat(name))
        except OSError as error:
            raise DataError(f"Cannot read {name}: {error.strerror or error}.") from error
    tf = _tensorflow()
    try:
        status = tf.io.gfile.stat(name)
    except tf.errors.OpError as error:
        raise DataError(f"Cannot read {name}: {error.message}") from error
    return Stamp(int(status.length), int(status.mtime_nsec))


def _matching(pattern: str) -> list[str]:
    tf = _tensorflow()
    try:
        found = tf.io.gfile.glob(pattern)
    except tf.errors.OpError as error:
        raise DataError(f"Cannot look for {pattern}: {error.message}") from error
    if not found:
        raise DataError(f"No file matches {pattern}.")
    return found


def _tensorflow() -> ModuleType:
    # Imported here: a plan of local files need not load it.
    import tensorflow

    return tensorflow
