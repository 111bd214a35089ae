"""Writes files atomically: under a temporary name in the same directory, then renamed.

A reader sees the old content or the new, never a part, whatever kills the writer. Every `OSError` on the way becomes a
`RunDirError` that names the file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfdist.errors import RunDirError
from tfdist.rundir.temp_names import remove_abandoned, temp_path
from tfdist.text import safe_str

_FULL = (errno.ENOSPC, errno.EDQUOT)

_NAMED_BY = "--run-dir"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = True, named_by: str = _NAMED_BY) -> Iterator[Path]:
    """Yields a temporary path; when the block ends without an error, what was written there replaces `path`.

    The temporary name keeps the suffix of `path`, by which Keras chooses its format. When the block raises, the
    temporary file is removed and `path` stays as it was. The file of a writer that was killed is removed by the next
    writer.

    Args:
        path: The file to make or replace; its directory exists.
        durable: Whether to wait until the disk has it (fsync), so that it survives a loss of power too.
        named_by: The option or argument by which a user chooses the place, for the error.

    Raises:
        RunDirError: The file cannot be written: the disk is full, the directory is read-only or gone.
    """
    path = Path(path)
    temporary = temp_path(path)
    if durable:
        # Not for states, which are written all the time: the next start of the run removes theirs.
        remove_abandoned(path)
    try:
        yield temporary
        if durable:
            sync(temporary)
        os.replace(temporary, path)
        if durable:
            _sync_directory(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) or (isinstance(error, Exception) and is_full(error)):
            raise write_error(path, error, named_by, temporary) from error
        raise


def write_bytes(
    path: str | os.PathLike[str], content: bytes, *, durable: bool = True, named_by: str = _NAMED_BY
) -> None:
    """Makes or replaces a file. Raises `RunDirError` when it cannot be written."""
    with replacing(path, durable=durable, named_by=named_by) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | os.PathLike[str], content: str, *, durable: bool = True, named_by: str = _NAMED_BY) -> None:
    """Makes or replaces a UTF-8 text file. Raises `RunDirError` when it cannot be written."""
    write_bytes(path, content.encode(), durable=durable, named_by=named_by)


def write_json(path: str | os.PathLike[str], content: Any, *, durable: bool = True, named_by: str = _NAMED_BY) -> None:
    """Makes or replaces a JSON file. Raises `RunDirError` when it cannot be written."""
    write_text(path, json.dumps(content, indent=2) + "\n", durable=durable, named_by=named_by)


def write_error(
    path: str | os.PathLike[str], error: BaseException, named_by: str = _NAMED_BY, temporary: Path | None = None
) -> RunDirError:
    """The error for a file or directory that could not be written, with its remedy.

    Args:
        named_by: The option or argument by which a user chooses the place.
        temporary: The name under which `path` was written, which a user need not know.
    """
    name = os.fspath(path)
    received = safe_str(error) if temporary is None else _named(error, temporary, name)
    if is_full(error):
        return RunDirError(
            f"The disk is full: {name} could not be written, and nothing half-written was left behind. "
            f"Free some space, or choose a {named_by} on another disk. Received: {received}"
        )
    return _missing_folder(name, named_by) or RunDirError(
        f"{name} could not be written. Expected a directory that this user can write to. Received: {received}. "
        f"Choose another {named_by}, or change the permissions."
    )


def check_folder(path: str | os.PathLike[str], *, named_by: str = _NAMED_BY) -> None:
    """Checks that the directory of a file that is about to be written is there, before its content is made.

    Raises:
        RunDirError: There is none.
    """
    error = _missing_folder(os.fspath(path), named_by)
    if error is not None:
        raise error


def _missing_folder(name: str, named_by: str) -> RunDirError | None:
    folder = Path(name).parent
    if os.path.lexists(folder):
        return None
    return RunDirError(
        f"{name} could not be written: there is no directory {folder}. Expected one that exists. Received: {name}. "
        f"Make the directory, or choose another {named_by}."
    )


def _named(error: BaseException, temporary: Path, name: str) -> str:
    """The text of an error, with the name of the file in the place of its temporary one."""
    if isinstance(error, OSError) and error.strerror and error.filename == os.fspath(temporary):
        return f"{error.strerror}: {name!r}"
    return safe_str(error).replace(os.fspath(temporary), name)


def is_full(error: BaseException) -> bool:
    """Returns whether a full disk or an exceeded quota caused an error."""
    # h5py and TensorFlow report a full disk by exceptions of their own, without errno but with the system's text.
    return getattr(error, "errno", None) in _FULL or any(os.strerror(code) in safe_str(error) for code in _FULL)


def sync(path: Path) -> None:
    """Waits until the disk has a file, or the names in a directory if the file system supports that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    """Makes the rename itself durable, if the directory can be opened."""
    try:
        sync(directory)
    except OSError as error:
        if error.errno != errno.EACCES:
            raise
