"""States of workers on other machines, kept in the chief's run directory for those who look only there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from tfdist.errors import RunDirError
from tfdist.rundir.layout import RunDir
from tfdist.rundir.worker_state_record import WorkerState


class RemoteStates:
    """Writes the states that other launchers send.

    Args:
        run: The run directory on the leader's machine.
        remote: The workers that other launchers start.
    """

    def __init__(self, run: RunDir, remote: Iterable[int]) -> None:
        self._run = run
        self._written: dict[int, WorkerState | None] = dict.fromkeys(remote)
        self._marks: dict[int, tuple[int, int]] = {}

    def write(self, states: Iterable[WorkerState]) -> None:
        """Writes those that are new. Where machines share the directory, the worker's own file is newer and stands."""
        for state in states:
            before = self._written.get(state.index, state)
            # Most of a large job have not changed since: the same object is not compared field by field.
            if before is not state and before != state:
                self._written[state.index] = state
                # If it cannot be written now, the next state will be.
                with contextlib.suppress(RunDirError, OSError):
                    self._write(state, before)

    def _write(self, state: WorkerState, before: WorkerState | None) -> None:
        file = self._run.state_file(state.index)
        if not self._is_own(file, state.index):
            there = None
            # A damaged file is replaced.
            with contextlib.suppress(RunDirError):
                there = WorkerState.read(file)
            # What this launcher wrote itself is older, whatever a clock says that was set back meanwhile.
            if there is not None and there != before and there.time >= state.time:
                return
        state.write(file, durable=False)
        self._marks[state.index] = _mark(file)

    def _is_own(self, file: Path, index: int) -> bool:
        """Returns whether the file is the one that this launcher wrote last, which need not be read then."""
        try:
            return self._marks.get(index) == _mark(file)
        except OSError:
            return False


def _mark(file: Path) -> tuple[int, int]:
    """By what a file is known: it is never changed, but replaced."""
    status = os.stat(file)
    return status.st_ino, status.st_mtime_ns
