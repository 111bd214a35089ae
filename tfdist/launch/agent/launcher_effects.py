"""Side effects of the launcher: starts workers, writes the records of the run directory, and prints."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence

from tfdist.errors import RunDirError
from tfdist.launch.agent.failure_diagnosis import ExitDiagnosis
from tfdist.launch.agent.stragglers import Stragglers
from tfdist.launch.environment import Assignment
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.logs.terminal import Terminal
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Restart
from tfdist.launch.peers.remote_states import RemoteStates
from tfdist.launch.run_dir.failure_report import render_restart
from tfdist.launch.run_dir.launcher_ledger import LauncherLedger
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_dir.run_records import close_state, write_failure, write_phase, write_state
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.worker_handle import Worker
from tfdist.launch.worker.worker_process import WorkerProcess
from tfdist.rundir.worker_state import State, WorkerState


class LauncherEffects:
    """What the decisions of a worker group do on this machine.

    Args:
        spec: What the launcher is asked to do.
        location: Where the job writes.
        coordinator: The connection to the other launchers.
        ledger: The launcher's part of the run's ledger.
        terminal: The launcher's own output.
        shown: Workers whose output is shown on the terminal.
    """

    def __init__(
        self,
        spec: JobSpec,
        location: RunLocation,
        coordinator: Coordinator,
        ledger: LauncherLedger,
        terminal: Terminal,
        shown: Collection[int],
    ) -> None:
        self._spec = spec
        self._location = location
        self._leads = coordinator.leads
        self._ledger = ledger
        self._terminal = terminal
        self._shown = shown
        self._remote_states = RemoteStates(location.run_dir, coordinator.remote if coordinator.leads else ())
        self._stragglers = Stragglers()
        self.diagnosis = ExitDiagnosis(location.run_dir)

    def start(self, assignment: Assignment) -> Worker:
        """Starts a worker."""
        index = assignment.index
        log = self._location.run_dir.log_file(index, assignment.attempt)
        terminal = self._terminal if index in self._shown else None
        self.diagnosis.start(index)
        worker = WorkerProcess(assignment, log, terminal, self._spec.worker_module, self._spec.environ)
        # The worker writes the same as soon as it can; for one that never gets there, this is all that there is.
        with contextlib.suppress(RunDirError):
            write_state(self._location, assignment, worker.pid, State.STARTING)
        return worker

    def enter(self, phase: JobPhase, attempt: int) -> None:
        """Records that the job enters a phase."""
        if phase is JobPhase.RUNNING:
            self._ledger.running(attempt)
        if self._location.writes_failure:
            write_phase(self._location, phase, attempt)

    def restart(self, result: RunResult, restart: Restart) -> None:
        """Reports an attempt that failed and is followed by another one."""
        self._terminal.say(render_restart(result, restart, verbose=self._spec.verbose))
        self._ledger.restarting(result)
        if self._location.writes_failure:
            write_failure(self._location.run_dir.attempt_failure_file(restart.attempt - 1), result.failures)

    def observe(self, states: Mapping[int, WorkerState]) -> None:
        """Takes the new states of workers, and reports stragglers."""
        self._remote_states.write(states.values())
        if self._leads:
            for message in self._stragglers.observe(states):
                self._terminal.say(message)

    def close(self, assignments: Sequence[Assignment], result: RunResult) -> None:
        """Records the end of the job, whose workers have ended."""
        self._ledger.over(result)
        if result.failures or result.stop:
            for assignment in assignments:
                close_state(self._location, assignment)
        if result.failures and not result.stop and self._location.writes_failure:
            write_failure(self._location.run_dir.failure_file, result.failures)
