"""Makes directories whole or not at all, and replaces one by another: whatever kills the writer, neither is lost.

A rename replaces a file, but no directory that holds something. Linux exchanges two names in one step on the file
systems of most disks. On others the earlier directory is renamed first, to a name that nobody clears away.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from tfdist.rundir.atomic_files import is_full, sync, write_error
from tfdist.rundir.temp_names import remove_abandoned, temp_path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_POSSIBLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


@contextlib.contextmanager
def making_directory(path: Path, *, named_by: str) -> Iterator[Path]:
    """Yields an empty temporary directory; when the block ends without an error, it becomes `path`.

    When the block raises, what it has written is removed, and `path` stays as it was. The directory of a writer that
    was killed is removed by the next writer.

    Args:
        path: The directory to make, or to replace where it exists.
        named_by: The option by which a user chooses the place, for the error.

    Raises:
        RunDirError: It cannot be written: the disk is full, the directory around it is read-only or gone.
    """
    temporary = temp_path(path)
    remove_abandoned(path)
    try:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        if path.exists():
            replace_directory(temporary, path)
        else:
            os.rename(temporary, path)
        sync(path.parent)
    except Exception as error:
        if isinstance(error, OSError) or is_full(error):
            raise write_error(path, error, named_by, temporary) from error
        raise
    finally:
        # The earlier directory, or what a failed writer has left.
        shutil.rmtree(temporary, ignore_errors=True)


def replace_directory(made: Path, target: Path) -> None:
    """Puts the directory `made` in the place of the directory `target`; `made` is the earlier one afterwards.

    Args:
        made: On the same file system as `target`.

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
