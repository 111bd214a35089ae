"""What a launcher does for a job besides deciding: starts its processes, keeps its records, tells the user of it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence

from tfdist.errors import RunDirError
from tfdist.launch.agent.job_phases import JobPhase
from tfdist.launch.agent.stragglers import Stragglers
from tfdist.launch.environment import Assignment
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.logs.terminal import Terminal
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Restart
from tfdist.launch.peers.remote_states import RemoteStates
from tfdist.launch.run_dir.failure_report import render_restart
from tfdist.launch.run_dir.launcher_ledger import LauncherLedger
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_dir.run_records import ExitDiagnosis, close_state, write_failure, write_phase, write_state
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.worker_handle import Worker
from tfdist.launch.worker.worker_process import WorkerProcess
from tfdist.rundir.worker_state import State, WorkerState


class LauncherEffects:
    """The effects of a group's decisions on this machine.

    Args:
        spec: What the launcher is asked to do.
        place: Where the job writes.
        control: The line to the other launchers.
        journal: The run's ledger.
        terminal: Where the user looks.
        shown: Workers whose output is shown there.
    """

    def __init__(
        self,
        spec: JobSpec,
        place: RunLocation,
        control: Coordinator,
        journal: LauncherLedger,
        terminal: Terminal,
        shown: Collection[int],
    ) -> None:
        self._spec = spec
        self._place = place
        self._leads = control.leads
        self._journal = journal
        self._terminal = terminal
        self._shown = shown
        self._elsewhere = RemoteStates(place.run_dir, control.remote if control.leads else ())
        self._stragglers = Stragglers()
        self.diagnosis = ExitDiagnosis(place)

    def start(self, assignment: Assignment) -> Worker:
        """Starts a worker."""
        index = assignment.index
        log = self._place.run_dir.log_file(index, assignment.attempt)
        terminal = self._terminal if index in self._shown else None
        self.diagnosis.begins(index)
        worker = WorkerProcess(assignment, log, terminal, self._spec.worker_module, self._spec.environ)
        # The worker says the same as soon as it can; one that never gets there has at least this.
        with contextlib.suppress(RunDirError):
            write_state(self._place, assignment, worker.pid, State.STARTING)
        return worker

    def enter(self, phase: JobPhase, attempt: int) -> None:
        """The job is in another phase."""
        if phase is JobPhase.RUNNING:
            self._journal.running(attempt)
        if self._place.writes_failure:
            write_phase(self._place, phase, attempt)

    def tell(self, outcome: RunResult, restart: Restart) -> None:
        """An attempt failed, and there is another one."""
        self._terminal.say(render_restart(outcome, restart, verbose=self._spec.verbose))
        self._journal.restarting(outcome)
        if self._place.writes_failure:
            write_failure(self._place.run_dir.attempt_failure_file(restart.attempt - 1), outcome.failures)

    def observe(self, states: Mapping[int, WorkerState]) -> None:
        """Workers have said something new."""
        self._elsewhere.write(states.values())
        if self._leads:
            for message in self._stragglers.observe(states):
                self._terminal.say(message)

    def close(self, assignments: Sequence[Assignment], outcome: RunResult) -> None:
        """The job is over; its workers have ended."""
        self._journal.over(outcome)
        if outcome.failures or outcome.stop:
            for assignment in assignments:
                close_state(self._place, assignment)
        if outcome.failures and not outcome.stop and self._place.writes_failure:
            write_failure(self._place.run_dir.failure_file, outcome.failures)
