"""One start of this launcher's workers, until none of them is left."""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfdist.errors import TfdistError
from tfdist.launch.agent.coordinated_stop import CoordinatedStop
from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.exit_policy import ExitAction, WorkerExit, decide_exit
from tfdist.launch.agent.failure_diagnosis import from_exit, from_start
from tfdist.launch.agent.first_failure import first_to_last
from tfdist.launch.agent.hang_detection import HangDetector
from tfdist.launch.agent.process_termination import SETTLE_SECONDS, end_all, kill_all, wait_until_left
from tfdist.launch.environment import Assignment
from tfdist.launch.peers.messages import AttemptEnded, Beat, Event, Released, Stop, WorkerDone, outlives_attempt
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import describe_signal
from tfdist.launch.worker.worker_handle import Worker, process_facts
from tfdist.net.bounded_wait import Source
from tfdist.net.line_socket import Message
from tfdist.rundir.failure import Failure
from tfdist.rundir.worker_state import State, WorkerState

_TICK_SECONDS = 0.2
_SAY_NO_PLACE = (State.STARTING, State.FAILED)
"""States of a worker that may not have begun any epoch: without a step, it need not be in the first one."""


class AttemptState(enum.Enum):
    """The course of one attempt.

    ::

        WORKING ---- every worker of the job is done ----> RELEASED ---- all have left ----> OVER
           |                                                  |                               ^
           |  a worker failed or hangs, here or elsewhere;    | they do not leave, a signal   |
           |  a launcher is gone; who was asked to stop       v                               |
           |  has not, or was asked twice -----------------> ENDING -- TERM, then KILL -------+
    """

    WORKING = "working"
    RELEASED = "released"
    ENDING = "ending"
    OVER = "over"


class GroupAttempt:
    """This launcher's workers, from their start to their end.

    Args:
        assignments: One a local worker.
        around: What it has to do with.
    """

    def __init__(self, assignments: Sequence[Assignment], around: Dependencies) -> None:
        self._assignments = assignments
        self._around = around
        self._control = around.control
        self._signals = around.signals
        self._clock = around.clock
        self._course = AttemptState.WORKING
        self._workers: dict[int, Worker] = {}
        indices = [*(assignment.index for assignment in assignments), *self._control.remote]
        self._progress = {index: WorkerExit(index) for index in sorted(indices)}
        self._hangs = HangDetector(self._workers, self._control, around.clock)
        self._stopping = CoordinatedStop(self._workers, self._control, around.grace, around.clock)
        self._failures: list[Failure] = []
        self._blamed: tuple[int, ...] = ()
        self._code: int | None = None
        self._step = 0
        self._news = False

    @property
    def course(self) -> AttemptState:
        """How far the attempt is."""
        return self._course

    def run(self) -> RunResult:
        """Starts the workers and returns when none is left."""
        try:
            self._start_all()
            while self._course is AttemptState.WORKING:
                self._observe()
                self._judge()
                self._pause()
            if self._course is AttemptState.RELEASED:
                wait_until_left(self._workers.values(), self._signals, self._clock, self._pause)
                self._course = AttemptState.OVER
            if self._course is AttemptState.ENDING:
                self._end_all()
            return self._outcome()
        finally:
            kill_all(self._workers.values(), self._clock, self._pause)
            for worker in self._workers.values():
                worker.close()

    def _start_all(self) -> None:
        for assignment in self._assignments:
            if self._signals.received:
                return
            try:
                self._workers[assignment.index] = self._around.start(assignment)
            except (OSError, TfdistError) as error:
                self._fail(from_start(assignment.index, error, address=assignment.address))
                return

    def _pause(self) -> None:
        sources: list[Source] = [self._signals]
        if self._course is AttemptState.WORKING:
            # Later nobody reads what these say, and they would end every wait at once.
            sources += [worker for worker in self._workers.values() if not self._progress[worker.index].gone]
            sources += self._control.sockets()
        self._around.wait(sources, _TICK_SECONDS)
        self._signals.drain()

    def _observe(self) -> None:
        for worker in self._workers.values():
            self._look_at(worker)
        events = self._control.events()
        while events and self._course is AttemptState.WORKING:
            self._hear(events.pop(0))
        # What has come together with the end is not lost, as what comes a moment later is not.
        self._control.keep([event for event in events if outlives_attempt(event)])
        if self._news:
            self._news = False
            self._around.observe(self._hangs.states)
        received = self._signals.received
        if received and self._course is AttemptState.WORKING:
            self._stopping.request(Stop(128 + received[0], describe_signal(received[0])), self._working())

    def _look_at(self, worker: Worker) -> None:
        progress = self._progress[worker.index]
        if progress.gone:
            return
        exit_code = worker.poll()
        # Asked after the exit: a worker's last word may have come just before it.
        for message in worker.receive():
            self._take(worker, message)
        progress = self._progress[worker.index]
        if exit_code is not None:
            if exit_code == -signal.SIGTERM and not worker.ended_by_launcher:
                # It could not relay the signal yet, which means the job all the same.
                self._stop_for(worker.index, signal.SIGTERM)
            failure = self._around.diagnose(worker, exit_code)
            if failure is not None:
                self._fail(failure)
                return
            self._update(replace(progress, gone=True), exit_code if progress.code is None else progress.code)

    def _take(self, worker: Worker, message: Message) -> None:
        """Handles one message of a worker; see `channel_protocol`."""
        match message:
            case {"finished": int(code)}:
                self._update(self._progress[worker.index], code)
            case {"beat": content}:
                state = self._hangs.beat(content)
                if state is not None:
                    self._get_on(state)
            case {"begun": int() | None as count}:
                self._stopping.begun(worker.index, count)
            case {"stacks": str(text), "where": str(where), **more}:
                self._hangs.answer(worker, where, text, str(more.get("called", "")))
            # Later it is this launcher's own SIGTERM.
            case {"signal": int(number)} if self._course is AttemptState.WORKING:
                self._stop_for(worker.index, number)

    def _stop_for(self, index: int, number: int) -> None:
        """A worker of this launcher got a signal that is meant for the job."""
        self._stopping.request(Stop(128 + number, describe_signal(number, f"worker {index}")), self._working())

    def _get_on(self, state: WorkerState) -> None:
        self._step = max(self._step, state.step)
        self._news = True

    def _update(self, progress: WorkerExit, code: int) -> None:
        before = self._progress[progress.index]
        since = before.since if before.code is not None and before.gone == progress.gone else self._clock()
        progress = replace(progress, code=code, since=since)
        self._progress[progress.index] = progress
        self._leaves(progress.index)
        if not self._control.leads:
            self._control.tell(WorkerDone(progress.index, code, progress.gone))

    def _fail(self, failure: Failure) -> None:
        state = self._hangs.states.get(failure.index)
        if state is not None and failure.step is None and (state.step or state.state not in _SAY_NO_PLACE):
            failure = replace(failure, epoch=state.epoch, step=state.step)
        self._failures.append(failure)
        self._progress[failure.index] = replace(self._progress[failure.index], gone=True, failed=True)
        self._leaves(failure.index)

    def _leaves(self, index: int) -> None:
        """A worker needs nothing any more, and answers nothing."""
        self._hangs.done(index)
        if self._control.leads:
            self._stopping.begun(index, None)

    def _hear(self, event: Event) -> None:
        self._hangs.hear(event)
        self._stopping.hear(event, self._working())
        if isinstance(event, Beat):
            self._get_on(event.state)
        elif isinstance(event, WorkerDone) and event.index in self._control.remote:
            self._progress[event.index] = WorkerExit(event.index, event.code, event.gone, since=self._clock())
            self._leaves(event.index)
        elif isinstance(event, Released):
            self._release(event.code)
        elif isinstance(event, AttemptEnded):
            self._failures += event.failures
            self._blame(event.blamed)
            self._stopping.conclude(event.stop)
            self._course = AttemptState.ENDING

    def _judge(self) -> None:
        if self._course is not AttemptState.WORKING:
            return
        everybody = list(self._progress.values())
        stop = self._stopping.stop
        decision = decide_exit(everybody, self._clock(), None if stop is None else stop.code)
        hang = self._hangs.tick()
        if decision.verdict is ExitAction.END and (self._control.leads or any(worker.failed for worker in everybody)):
            self._blame(decision.culprits)
            self._end()
        elif decision.verdict is ExitAction.RELEASE and self._control.leads:
            self._control.tell(Released(decision.code))
            self._release(decision.code)
        elif hang:
            self._failures += hang
            self._end()
        elif self._stopping.tick() or len(self._signals.received) > 1:
            self._end()

    def _blame(self, culprits: Sequence[int]) -> None:
        """Makes a failure of those local workers that left too early, and so have none yet."""
        self._blamed = tuple(index for index in culprits if index in self._progress)
        for index in culprits:
            progress, worker = self._progress.get(index), self._workers.get(index)
            if worker is not None and progress is not None and progress.code is not None and not progress.failed:
                self._fail(from_exit(index, progress.code, **process_facts(worker)))

    def _working(self) -> Iterable[int]:
        """The workers that are not done; a signal may come before all of this launcher's are started."""
        started = [self._progress[index] for index in (*self._workers, *self._control.remote)]
        return sorted(progress.index for progress in started if progress.code is None and not progress.gone)

    def _release(self, code: int) -> None:
        self._course = AttemptState.RELEASED
        self._code = code
        for worker in self._workers.values():
            worker.send({"release": True})

    def _end(self) -> None:
        self._control.tell(AttemptEnded(first_to_last(self._failures), self._stopping.stop, self._blamed))
        self._course = AttemptState.ENDING

    def _end_all(self) -> None:
        end_all(self._workers.values(), self._signals, self._clock, self._pause)
        for worker in self._workers.values():
            if not self._progress[worker.index].failed:
                self._look_at(worker)
        if self._stopping.stop is None:
            patience = SETTLE_SECONDS if self._control.leads else 2 * SETTLE_SECONDS
            self._failures = list(self._control.settle(self._failures, patience))
            # Blamed, and its launcher could not say more: the job failed all the same.
            self._failures = self._failures or [
                from_exit(index, self._progress[index].code or 0) for index in self._blamed
            ]
        self._course = AttemptState.OVER

    def _outcome(self) -> RunResult:
        failures = first_to_last(self._failures)
        step = max([self._step, *(failure.step or 0 for failure in failures)])
        stop = self._stopping.stop
        if stop is not None and self._code in (None, stop.code):
            return RunResult(stop.code, failures, stop, step, self._stopping.why_abrupt)
        return RunResult(failures[0].exit_code if failures else self._code or 0, failures, step=step)
