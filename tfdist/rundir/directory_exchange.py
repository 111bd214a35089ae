"""Replaces a directory by another: whatever kills the writer, neither is lost.

A rename replaces a file, but no directory that holds something. Linux exchanges two names in one step on the file
systems of most disks. On others the earlier directory is renamed first, to a name that nobody clears away.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_POSSIBLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def replace_directory(made: Path, target: Path) -> None:
    """Puts the directory `made` in the place of the directory `target`; `made` is the earlier one afterwards.

    Args:
        made: On the same file system as `target`.
        target: Exists.

    Raises:
        OSError: It is not possible; both are as they were.
    """
    try:
        _exchange(made, target)
    except OSError as error:
        if error.errno not in _NOT_POSSIBLE:
            raise
        _rename_both(made, target)


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _rename_both(made: Path, target: Path) -> None:
    earlier = target.with_name(f"{target.name}.earlier-{secrets.token_hex(4)}")
    os.rename(target, earlier)
    try:
        os.rename(made, target)
    except OSError:
        os.rename(earlier, target)
        raise
    os.rename(earlier, made)
