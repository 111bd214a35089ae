"""Repair of `keras.utils.get_file` on several workers of a machine: one downloads, the others find the file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tfdist.errors import DataError

Function = Callable[..., Any]

LOCK_SECONDS = 3600.0
"""Seconds that a worker waits for another one's download."""

_POLL_SECONDS = 0.2


def get_file(original: Function) -> Function:
    """Repairs `keras.utils.get_file`, which takes no lock on the cache directory that it writes into."""

    def repaired(*args: Any, **kwargs: Any) -> Any:
        with _one_at_a_time(repr((args, sorted(kwargs.items(), key=lambda item: item[0])))):
            return original(*args, **kwargs)

    return repaired


@contextmanager
def _one_at_a_time(what: str) -> Iterator[None]:
    """Holds a file lock, by what is asked for, among this user's processes; the kernel frees it with its holder.

    Its file goes with whoever held it last.
    """
    name = f"tfdist-{os.getuid()}-{hashlib.sha256(what.encode()).hexdigest()[:16]}.lock"
    path = Path(tempfile.gettempdir()) / name
    descriptor = _locked(path, time.monotonic() + LOCK_SECONDS)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # before it is free: who has waited for it sees that it is gone
        os.close(descriptor)


def _locked(path: Path, deadline: float) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, path, deadline)
            is_there = os.fstat(descriptor).st_nlink > 0
        except BaseException:
            os.close(descriptor)
            raise
        if is_there:
            return descriptor
        os.close(descriptor)


def _lock(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DataError(
                    f"keras.utils.get_file waited {LOCK_SECONDS:.0f} s for another worker of this machine to finish "
                    f"the same download. Look at that worker's log; it holds the lock {path}."
                ) from None
            time.sleep(_POLL_SECONDS)
