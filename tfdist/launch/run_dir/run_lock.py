"""Lock on run directories: keeps other jobs out of the one that a running job writes into."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from tfdist.errors import RunDirError
from tfdist.rundir.layout import RunDir


class RunLock:
    """While entered, holds run directories that no other job on this file system may take.

    Holds `flock`s on the directories of states, which the kernel releases with the launcher, however that ends.
    `--overwrite` removes the files of an earlier run, but never this directory itself.
    """

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._held:
            os.close(self._held.popitem()[1])

    def take(self, run: RunDir) -> None:
        """Takes a run directory; does nothing where none has been made yet.

        Raises:
            RunDirError: Another job holds it.
        """
        if run.path in self._held:
            return
        try:
            descriptor = os.open(run.state_dir, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return
        if _is_locked(descriptor):
            os.close(descriptor)
            raise RunDirError(
                f"The run directory {run} belongs to a job that is still running. Expected one that no other job uses. "
                "Choose another --run-dir, or end that job first."
            )
        self._held[run.path] = descriptor


def _is_locked(descriptor: int) -> bool:
    """Locks a directory; returns whether another job holds it. A file system without locks does not stop the run."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
