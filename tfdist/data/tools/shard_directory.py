"""Directory of shards: it exists, can be written, and belongs to one command at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tfdist.errors import UsageError

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)
"""Errors of a file system without locks, on which two commands at once are not noticed."""


def make_directory(directory: Path) -> None:
    """Makes the directory if it does not exist.

    Raises:
        UsageError: It cannot be made or written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(directory, error) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise unwritable(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Locks the directory against other commands; the lock ends with this process, however that ends.

    Raises:
        UsageError: Another process holds the lock.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"Another `tfdist data shard` is writing into {directory} now. Wait until it has ended, or choose "
                "another DEST."
            ) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise unwritable(directory, error) from error
        yield
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: BaseException) -> UsageError:
    """The error for a path that could not be written."""
    reason = getattr(error, "strerror", None) or error
    return UsageError(
        f"{path} cannot be written: {reason}. Expected DEST to be a directory that this user can write to. Choose "
        "another."
    )
