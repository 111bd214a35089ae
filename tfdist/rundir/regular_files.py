"""Opens files that something else than tfdist may have put there, and reads only so much of them as is expected."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from typing import Any, BinaryIO

from tfdist.bounded_json import parse

MOST_JSON_BYTES = 32 << 20
"""More than any JSON file of tfdist has. What is read may take some twenty times its bytes in memory."""


def open_regular(path: str | os.PathLike[str], *, follows_link: bool = False) -> BinaryIO:
    """Opens a regular file for reading bytes; neither a link is followed nor a device or pipe waited for.

    Args:
        follows_link: Whether a link is followed to a regular file after all, as where a user has named it.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows_link else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, not a regular file", os.fspath(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def open_to_append(path: str | os.PathLike[str]) -> FileIO:
    """Opens a file to append bytes to it, unbuffered, and makes it where there is none.

    Neither is a link followed nor a reader of a pipe waited for.

    Raises:
        OSError: It cannot be opened, or is a link.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return FileIO(os.open(path, flags, 0o666), "ab+")


def regular_size(path: str | os.PathLike[str]) -> int:
    """The bytes of a regular file.

    Raises:
        OSError: It cannot be looked at, or is no regular file.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        kind = "a symbolic link, not a regular file" if stat.S_ISLNK(status.st_mode) else "not a regular file"
        raise OSError(errno.EINVAL, f"it is {kind}", os.fspath(path))
    return status.st_size


def read_json(path: str | os.PathLike[str], most_bytes: int = MOST_JSON_BYTES) -> Any:
    """The value in a JSON file.

    Args:
        most_bytes: A larger file is not read.

    Raises:
        OSError: It cannot be read, or is no regular file.
        ValueError: It is larger, or holds something else than JSON.
    """
    with open_regular(path) as file:
        return parse(file.read(most_bytes + 1), most_bytes)


def read_text(path: str | os.PathLike[str], most_bytes: int = MOST_JSON_BYTES) -> str:
    """The text of a file in UTF-8.

    Raises:
        OSError: It cannot be read, is no regular file, or larger.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", os.fspath(path))
    return content.decode(errors="replace")


def read_tail(path: str | os.PathLike[str], most_bytes: int) -> tuple[bytes, int]:
    """The last bytes of a file that may be of any length, and how many are before them.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        skipped = max(0, os.fstat(file.fileno()).st_size - most_bytes)
        file.seek(skipped)
        return file.read(most_bytes), skipped


def is_bare_name(name: Any) -> bool:
    """Returns whether `name` is the name of a file in a directory, and no way out of it."""
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name and "\0" not in name
