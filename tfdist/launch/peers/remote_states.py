"""States of workers on other machines, kept in the chief's run directory for those who look only there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from tfdist.errors import RunDirError
from tfdist.rundir.layout import RunDir
from tfdist.rundir.worker_state import WorkerState


class RemoteStates:
    """Writes the states that other launchers send.

    Args:
        run: The run directory on the leader's machine.
        remote: The workers that other launchers start.
    """

    def __init__(self, run: RunDir, remote: Iterable[int]) -> None:
        self._run = run
        self._written: dict[int, WorkerState | None] = dict.fromkeys(remote)

    def write(self, states: Iterable[WorkerState]) -> None:
        """Writes those that are new. Where machines share the directory, the worker's own file is newer and stands."""
        for state in states:
            if state.index in self._written and (before := self._written[state.index]) != state:
                self._written[state.index] = state
                # If it cannot be written now, the next state will be.
                with contextlib.suppress(RunDirError):
                    self._write(state, before)

    def _write(self, state: WorkerState, before: WorkerState | None) -> None:
        file = self._run.state_file(state.index)
        there = None
        # A damaged file is replaced.
        with contextlib.suppress(RunDirError):
            there = WorkerState.read(file)
        # What this launcher wrote itself is older, whatever a clock says that was set back meanwhile.
        if there is None or there == before or there.time < state.time:
            state.write(file, durable=False)
