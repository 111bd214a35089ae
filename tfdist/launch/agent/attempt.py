"""One attempt of a job on this launcher: starts its workers, watches them, and returns when none is left."""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfdist.errors import TfdistError
from tfdist.launch.agent.coordinated_stop import CoordinatedStop
from tfdist.launch.agent.dependencies import Dependencies
from tfdist.launch.agent.exit_diagnosis import from_exit, from_start
from tfdist.launch.agent.group_policy import ExitAction, ExitDecision, WorkerExit, decide_exit
from tfdist.launch.agent.hang_detection import HangDetector
from tfdist.launch.environment import Assignment
from tfdist.launch.peers.messages import (
    AttemptEnded,
    Beat,
    Event,
    Posted,
    Released,
    Stop,
    StopRequested,
    WorkerDone,
    gather_seconds,
    observe_seconds,
    outlives_attempt,
)
from tfdist.launch.peers.root_cause import is_consequence, root_cause_first
from tfdist.launch.run_result import RunResult
from tfdist.launch.signals import describe_signal
from tfdist.launch.worker.process_termination import SETTLE_SECONDS, end_all, kill_all, wait_until_left
from tfdist.launch.worker.worker_process import Worker, process_facts
from tfdist.net.bounded_wait import Source
from tfdist.net.line_socket import Message
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import State, WorkerState

CHIEF = 0
_TICK_SECONDS = 0.2
_BEFORE_TRAINING = (State.STARTING, State.FAILED, State.STOPPED)
"""States in which a worker without a step may not have begun its first epoch."""


class AttemptState(enum.Enum):
    """The states of one attempt.

    ::

        WORKING ---- every worker of the job is done ----> RELEASED ---- all have left ----> OVER
           |                                                  |                               ^
           |  a worker failed or hangs, here or elsewhere;    | they do not leave, a signal   |
           |  a launcher is gone; workers that were asked     v                               |
           |  to stop have not; a second signal -----------> ENDING -- TERM, then KILL -------+
    """

    WORKING = "working"
    RELEASED = "released"
    ENDING = "ending"
    OVER = "over"


class GroupAttempt:
    """This launcher's workers, from their start to their end."""

    def __init__(self, assignments: Sequence[Assignment], dependencies: Dependencies) -> None:
        self._assignments = assignments
        self._dependencies = dependencies
        self._coordinator = dependencies.coordinator
        self._signals = dependencies.signals
        self._clock = dependencies.clock
        self._state = AttemptState.WORKING
        self._workers: dict[int, Worker] = {}
        indices = [*(assignment.index for assignment in assignments), *self._coordinator.remote]
        self._exits = {index: WorkerExit(index) for index in sorted(indices)}
        self._hangs = HangDetector(self._workers, self._coordinator, self._clock)
        self._stopping = CoordinatedStop(self._workers, self._coordinator, dependencies.grace, self._clock)
        self._failures: list[Failure] = []
        self._blamed: tuple[int, ...] = ()
        self._code: int | None = None
        self._step = 0
        self._has_news = False
        self._next_look = 0.0
        self._is_anyone_done = False
        num_workers = len(self._exits)
        self._look_seconds = observe_seconds(num_workers)
        self._gather_seconds = gather_seconds(num_workers - len(assignments)) if self._coordinator.leads else 0.0

    @property
    def state(self) -> AttemptState:
        """The state that the attempt is in."""
        return self._state

    def run(self) -> RunResult:
        """Starts the workers and returns when none is left."""
        try:
            self._start_all()
            while self._state is AttemptState.WORKING:
                self._observe()
                self._judge()
                self._pause()
            self._look()
            if self._state is AttemptState.RELEASED:
                wait_until_left(self._workers.values(), self._signals, self._clock, self._pause)
                self._state = AttemptState.OVER
            if self._state is AttemptState.ENDING:
                self._end_all()
            return self._result()
        finally:
            kill_all(self._workers.values(), self._clock, self._pause)
            if self._dependencies.orphans is not None:
                # Before the outputs are closed, which they may hold open.
                self._dependencies.orphans.end(self._pids())
            for worker in self._workers.values():
                worker.close()

    def _start_all(self) -> None:
        with self._dependencies.linked(self._assignments) as assignments:
            for assignment in assignments:
                if self._signals.received:
                    return
                try:
                    self._workers[assignment.index] = self._dependencies.start(assignment)
                except (OSError, TfdistError) as error:
                    self._fail(from_start(assignment.index, error, address=assignment.address))
                    return

    def _pause(self) -> None:
        sources: list[Source] = [self._signals]
        if self._state is AttemptState.WORKING:
            # Later nobody reads these, and what they send would end every wait at once.
            sources += [worker for worker in self._workers.values() if not self._exits[worker.index].gone]
            if self._gather_seconds:
                self._dependencies.wait(sources, self._gather_seconds)
            sources += self._coordinator.sockets()
        self._dependencies.wait(sources, _TICK_SECONDS)
        self._signals.drain()

    def _observe(self) -> None:
        for worker in self._workers.values():
            self._poll(worker)
        if self._dependencies.orphans is not None:
            self._dependencies.orphans.reap(self._pids())
        events = self._coordinator.events()
        while events and self._state is AttemptState.WORKING:
            self._hear(events.pop(0))
        # Events that come together with the end are kept, like those that come a moment later.
        self._coordinator.keep([event for event in events if outlives_attempt(event)])
        if self._clock() >= self._next_look:
            self._look()
        received, asked = self._signals.received, self._signals.asked
        if received and self._state is AttemptState.WORKING:
            self._stopping.request(Stop(128 + received[0], describe_signal(received[0])), self._working())
        elif asked is not None and self._state is AttemptState.WORKING and self._trains():
            self._stopping.request(Stop(128 + signal.SIGTERM, asked), self._working())

    def _pids(self) -> set[int]:
        return {worker.pid for worker in self._workers.values()}

    def _look(self) -> None:
        """Shows the states of all workers, where some are new, to those that watch them."""
        if self._has_news:
            self._has_news = False
            self._next_look = self._clock() + self._look_seconds
            self._dependencies.observe(self._hangs.states)

    def _poll(self, worker: Worker) -> None:
        """Handles what a worker has sent, and its exit."""
        if self._exits[worker.index].gone:
            return
        exit_code = worker.poll()
        # Received after the poll: a worker may send its last message just before it exits.
        for message in worker.receive():
            self._receive(worker, message)
        known = self._exits[worker.index]
        if exit_code is not None:
            if exit_code == -signal.SIGTERM and not worker.ended_by_launcher:
                # It could not relay the signal yet, but the signal is meant for the job all the same.
                self._stop_for(worker.index, signal.SIGTERM)
            failure = self._dependencies.diagnose(worker, exit_code)
            if failure is not None:
                self._fail(failure)
                return
            self._update(replace(known, gone=True), exit_code if known.code is None else known.code)

    def _receive(self, worker: Worker, message: Message) -> None:
        """Handles one message of a worker; see `channel_protocol`."""
        match message:
            case {"finished": int(code)}:
                self._update(self._exits[worker.index], code)
            case {"beat": content}:
                state = self._hangs.beat(content)
                if state is not None:
                    self._advance(state)
            case {"progress": dict() | None as told}:
                self._dependencies.progress(told)
            case {"post": {"subject": str(subject), "content": dict(content)}}:
                self._post(Posted(subject, content))
            case {"begun": int() | None as count}:
                self._stopping.begun(worker.index, count)
            case {"stacks": str(text), "where": str(where), **more}:
                self._hangs.answer(worker, where, text, str(more.get("called", "")))
            # In later states it is this launcher's own SIGTERM.
            case {"signal": int(number)} if self._state is AttemptState.WORKING and number in signal.valid_signals():
                self._stop_for(worker.index, number)

    def _post(self, letter: Posted) -> None:
        """Hands on what a worker tells the chief's process."""
        if not self._coordinator.leads:
            self._coordinator.tell(letter)
        elif CHIEF in self._workers:
            self._workers[CHIEF].send({"post": {"subject": letter.subject, "content": letter.content}})

    def _stop_for(self, index: int, number: int) -> None:
        """A worker of this launcher got a signal that is meant for the job."""
        self._stopping.request(Stop(128 + number, describe_signal(number, f"worker {index}")), self._working())

    def _advance(self, state: WorkerState) -> None:
        self._step = max(self._step, state.step)
        self._has_news = True

    def _update(self, known: WorkerExit, code: int) -> None:
        before = self._exits[known.index]
        since = before.since if before.code is not None and before.gone == known.gone else self._clock()
        self._exits[known.index] = replace(known, code=code, since=since)
        self._forget(known.index)
        if not self._coordinator.leads:
            self._coordinator.tell(WorkerDone(known.index, code, known.gone))

    def _fail(self, failure: Failure) -> None:
        state = self._hangs.states.get(failure.index)
        if state is not None and failure.step is None and (state.step or state.state not in _BEFORE_TRAINING):
            failure = replace(failure, epoch=state.epoch, step=state.step)
        self._failures.append(failure)
        self._exits[failure.index] = replace(self._exits[failure.index], gone=True, failed=True)
        self._forget(failure.index)

    def _forget(self, index: int) -> None:
        """A worker is done: it cannot hang, and answers no request."""
        self._is_anyone_done = True
        self._hangs.done(index)
        if self._coordinator.leads:
            self._stopping.begun(index, None)

    def _hear(self, event: Event) -> None:
        self._hangs.hear(event)
        self._stopping.hear(event, self._working() if isinstance(event, StopRequested) else ())
        if isinstance(event, Beat):
            self._advance(event.state)
        elif isinstance(event, Posted) and self._coordinator.leads:
            self._post(event)
        elif isinstance(event, WorkerDone) and event.index in self._coordinator.remote:
            self._exits[event.index] = WorkerExit(event.index, event.code, event.gone, since=self._clock())
            self._forget(event.index)
        elif isinstance(event, Released):
            self._release(event.code)
        elif isinstance(event, AttemptEnded):
            self._failures += event.failures
            self._blame(event.blamed)
            self._stopping.conclude(event.stop)
            self._state = AttemptState.ENDING

    def _judge(self) -> None:
        if self._state is not AttemptState.WORKING:
            return
        # Of a large job that trains there would be much to look at, at every step of the loop, and nothing to decide.
        exits = list(self._exits.values()) if self._is_anyone_done else []
        stop, leads = self._stopping.stop, self._coordinator.leads
        decision = ExitDecision(ExitAction.WAIT)
        if self._is_anyone_done:
            decision = decide_exit(exits, self._clock(), None if stop is None else stop.code)
        hang = self._hangs.tick()
        if decision.action is ExitAction.END and (leads or any(worker.failed for worker in exits)):
            self._blame(decision.culprits)
            self._end()
        elif decision.action is ExitAction.RELEASE and leads:
            self._coordinator.tell(Released(decision.code))
            self._release(decision.code)
        elif hang:
            self._failures += hang
            self._end()
        elif self._stopping.tick() or len(self._signals.received) > 1:
            self._end()

    def _blame(self, culprits: Sequence[int]) -> None:
        """Records a failure of each local worker that left too early and has none yet."""
        self._blamed = tuple(index for index in culprits if index in self._exits)
        for index in culprits:
            known, worker = self._exits.get(index), self._workers.get(index)
            if worker is not None and known is not None and known.code is not None and not known.failed:
                self._fail(from_exit(index, known.code, **process_facts(worker)))

    def _trains(self) -> bool:
        """Returns whether a worker has done a step of a training, so that all can stop after one."""
        return any(state.state is State.STEP for state in self._hangs.states.values())

    def _working(self) -> Iterable[int]:
        """The workers that are not done; a signal may come before all of this launcher's workers have started."""
        started = [self._exits[index] for index in (*self._workers, *self._coordinator.remote)]
        return sorted(worker.index for worker in started if worker.code is None and not worker.gone)

    def _release(self, code: int) -> None:
        self._state = AttemptState.RELEASED
        self._code = code
        for worker in self._workers.values():
            worker.send({"release": True})

    def _end(self) -> None:
        self._coordinator.tell(AttemptEnded(root_cause_first(self._failures), self._stopping.stop, self._blamed))
        self._state = AttemptState.ENDING

    def _look_for_stalls(self) -> None:
        """Looks for a silent worker here that does not run, where all failures follow from another worker's."""
        here = [index for index in self._workers if self._exits[index].code is None and not self._exits[index].gone]
        if self._stopping.stop is not None or not self._failures or not here or self._has_cause():
            return
        self._hangs.ask_for_stalls(here)
        while (stalls := self._hangs.stalls()) is None and not self._has_cause() and not self._signals.received:
            self._pause()
            for worker in self._workers.values():
                self._poll(worker)
        if not self._has_cause():
            for failure in stalls or ():
                self._fail(failure)

    def _has_cause(self) -> bool:
        return not all(map(is_consequence, self._failures))

    def _end_all(self) -> None:
        self._look_for_stalls()
        end_all(self._workers.values(), self._signals, self._clock, self._pause)
        for worker in self._workers.values():
            if not self._exits[worker.index].failed:
                self._poll(worker)
        if self._stopping.stop is None:
            patience = SETTLE_SECONDS if self._coordinator.leads else 2 * SETTLE_SECONDS
            self._failures = list(self._coordinator.settle(self._failures, patience))
            # The worker was blamed and its launcher sent no failure: the job failed all the same.
            self._failures = self._failures or [
                from_exit(index, self._exits[index].code or 0) for index in self._blamed
            ]
        self._state = AttemptState.OVER

    def _result(self) -> RunResult:
        failures = root_cause_first(self._failures)
        step = max([self._step, *(failure.step or 0 for failure in failures)])
        stop = self._stopping.stop
        if stop is not None and self._code in (None, stop.code):
            return RunResult(stop.code, failures, stop, step, self._stopping.why_abrupt)
        return RunResult(failures[0].exit_code if failures else self._code or 0, failures, step=step)
