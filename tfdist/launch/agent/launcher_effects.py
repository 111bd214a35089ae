"""Side effects of the launcher: starts workers, writes the records of the run directory, and prints."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.agent.exit_diagnosis import ExitDiagnosis
from tfdist.launch.agent.stragglers import Stragglers
from tfdist.launch.environment import Assignment
from tfdist.launch.job_phases import JobPhase
from tfdist.launch.job_spec import JobSpec
from tfdist.launch.logs.terminal import Terminal
from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Restart, Stop, straggler_seconds
from tfdist.launch.progress_display import ProgressDisplay
from tfdist.launch.requeue_policy import RequeuePolicy, RunStart, is_saved, read_starts
from tfdist.launch.run_dir.closing_report import failure_fields, render_restart
from tfdist.launch.run_dir.run_location import RunLocation
from tfdist.launch.run_dir.run_records import (
    LauncherLedger,
    RemoteStates,
    close_state,
    write_failure,
    write_phase,
    write_state,
)
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.worker_links import linked
from tfdist.launch.worker.worker_process import Worker, WorkerProcess
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.rundir.failure import Failure
from tfdist.rundir.regular_files import open_to_append
from tfdist.rundir.state_records import State, WorkerState
from tfdist.text import print_line


class LauncherEffects:
    """The effects on this machine of the decisions of a worker group.

    A disk that is full, gone, or does not answer must not keep a launcher from watching and ending its workers.

    Args:
        location: Where the job writes.
        ledger: The launcher's part of the run's ledger.
        shown: Workers whose output is shown on the terminal.
        metrics: Told what happens, for who watches it from outside.
    """

    def __init__(
        self,
        spec: JobSpec,
        location: RunLocation,
        coordinator: Coordinator,
        ledger: LauncherLedger,
        terminal: Terminal,
        shown: Collection[int],
        display: ProgressDisplay,
        metrics: RunMetrics,
    ) -> None:
        self._spec = spec
        self._location = location
        self._leads = coordinator.leads
        self._ledger = ledger
        self.terminal = terminal
        self._shown = shown
        self._display = display
        self._metrics = metrics
        self._remote_states = RemoteStates(location.run_dir, coordinator.remote if coordinator.leads else ())
        self._stragglers = Stragglers()
        self._begun = time.monotonic()
        self._next_stragglers = 0.0
        self._disk = BoundedDisk(location.run_dir.path)
        self.diagnosis = ExitDiagnosis(location.run_dir, self._disk)
        self._pids: dict[int, int] = {}

    def start(self, assignment: Assignment) -> Worker:
        """Starts a worker.

        Raises:
            OSError: Its process cannot be started, or its log cannot be opened.
            RunDirError: The disk of the run directory does not answer.
        """
        index = assignment.index
        log = self._location.run_dir.log_file(index, assignment.attempt)
        terminal = self.terminal if index in self._shown else None
        self.diagnosis.start(index)
        self._disk.call(lambda: open_to_append(log).close())
        worker = WorkerProcess(assignment, log, terminal, self._spec.worker_module, self._spec.environ)
        self._pids[index] = worker.pid
        # The worker writes the same as soon as it can; for one that never gets there, this is all that there is.
        self._record(lambda: write_state(self._location, assignment, worker.pid, State.STARTING))
        return worker

    def linked(self, assignments: Sequence[Assignment]) -> AbstractContextManager[Sequence[Assignment]]:
        """The context in which workers start that share memory, where all of the job's run on this host."""
        return linked(assignments, lambda text: self.terminal.say(f"warning: {text}", event="links", level="warning"))

    def enter(self, phase: JobPhase, attempt: int) -> None:
        """Records that the job enters a phase."""
        self._metrics.note(phase=phase, attempt=attempt)
        if phase is not JobPhase.RUNNING:
            self._display.clear()
        if phase is JobPhase.RUNNING:
            self.terminal.begin(attempt)
            self._record(lambda: self._ledger.running(attempt))
        if self._location.writes_failure:
            self._record(lambda: write_phase(self._location.run_dir, phase, attempt))

    def restart(self, result: RunResult, restart: Restart) -> None:
        """Reports an attempt that failed and is followed by another one."""
        self._metrics.restarted(failure.index for failure in result.failures)
        said = render_restart(result, restart, verbose=self._spec.verbose)
        self.terminal.say(said, **{**failure_fields(result), "event": "restart", "level": "warning"})
        self._record(lambda: self._ledger.restarting(result))
        if self._location.writes_failure:
            self._write_failure(self._location.run_dir.attempt_failure_file(restart.attempt - 1), result.failures)

    def observe(self, states: Mapping[int, WorkerState]) -> None:
        """Takes the new states of workers, and reports stragglers."""
        self._metrics.observe(states)
        newest = list(states.values())
        self._record(lambda: self._remote_states.write(newest))
        now = time.monotonic()
        self.diagnosis.look(self._pids, now)
        if self._leads and now >= self._next_stragglers:
            self._next_stragglers = now + straggler_seconds(len(states))
            for message in self._stragglers.observe(states, now):
                self.terminal.say(message, event="straggler")

    def progress(self, told: Mapping[str, Any] | None) -> None:
        """Shows what the chief tells of its progress."""
        self._display.update(told)

    def judge_stop(self, stop: Stop, step: int) -> Stop:
        """The stop as the job ends by it: with another exit code where the run would be requeued for ever."""
        run = self._location.run_dir
        try:
            starts, saved = self._disk.call(lambda: (read_starts(run), is_saved(run)))
        except RunDirError:
            # Nobody knows, and a scheduler may know more.
            return stop
        now = starts[-1] if starts else RunStart(None)
        step = max(now.step, step)
        reached = replace(
            now,
            code=stop.code,
            step=step,
            has_trained=now.has_trained or step > now.resumed,
            seconds=time.monotonic() - self._begun,
        )
        policy = RequeuePolicy(self._spec.max_requeues, self._spec.first_step_timeout)
        return policy.judge(stop, [*starts[:-1], reached], is_saved=saved)

    def close(self, assignments: Sequence[Assignment], result: RunResult) -> None:
        """Records the end of the job, whose workers have ended."""
        self._record(lambda: self._ledger.over(result))
        if result.failures or result.stop:
            failed = {failure.index for failure in result.failed_meanwhile()}
            for assignment in assignments:
                last = State.FAILED if assignment.index in failed or not result.stop else State.STOPPED
                self._record(functools.partial(close_state, self._location, assignment, last))
        if result.failures and not result.stop and self._location.writes_failure:
            self._write_failure(self._location.run_dir.failure_file, result.failures)

    def _record(self, write: Callable[[], None]) -> None:
        """Writes what a run does without where it cannot be written."""
        with contextlib.suppress(RunDirError):
            self._disk.call(write)

    def _write_failure(self, file: Path, failures: tuple[Failure, ...]) -> None:
        try:
            self._disk.call(lambda: write_failure(file, failures))
        except RunDirError as error:
            print_line(f"tfdist: the failure record could not be written: {error}", sys.stderr)
