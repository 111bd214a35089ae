"""The workers of this launcher, from their start to their end."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tfdist.errors import TfdistError
from tfdist.launch.control import Control, Done, Ended, Event, Released, Stop
from tfdist.launch.decisions import Progress, Verdict, decide
from tfdist.launch.environment import Assignment
from tfdist.launch.failures import Failure, first_to_last, from_exit, from_start
from tfdist.launch.signals import Signals
from tfdist.launch.signals import describe as describe_signal
from tfdist.launch.waiting import Source, wait_for
from tfdist.launch.worker import Worker, describe

TERM_SECONDS = 3.0
"""Between SIGTERM and SIGKILL. TensorFlow swallows the first; all is over within 5 s."""
KILL_SECONDS = 1.5
"""How long the kernel may take to end what got a SIGKILL."""
LEAVE_SECONDS = 60.0
"""How long a released worker may take to leave."""
SETTLE_SECONDS = 6.0
"""How long the leading launcher waits for the others' failures; they wait twice as long for its answer."""
_TICK_SECONDS = 0.2


class Phase(enum.Enum):
    """The life of a group.

    ::

        RUNNING ---- every worker of the job is done ----> RELEASED ---- all have left ----> OVER
           |                                                  |                               ^
           |  a worker failed, here or elsewhere;             | LEAVE_SECONDS, a signal       |
           |  a signal to a launcher; a launcher is gone      v                               |
           +---------------------------------------------> ENDING -- TERM, then KILL ---------+

    ENDING takes TERM_SECONDS + KILL_SECONDS at most; a second signal skips the first of the two.
    """

    RUNNING = "running"
    RELEASED = "released"
    ENDING = "ending"
    OVER = "over"


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        code: What the launcher exits with.
        failures: Every failure of the job that is known here, the first one first.
        stop: Who ended it on purpose, if anybody did.
    """

    code: int
    failures: tuple[Failure, ...] = ()
    stop: Stop | None = None


Start = Callable[[Assignment], Worker]
Diagnose = Callable[[Worker, int], Failure | None]
Wait = Callable[[Sequence[Source], float], None]


class Group:
    """This launcher's workers.

    Args:
        assignments: One a local worker.
        start: Starts a worker.
        diagnose: What an ended worker's exit code and error file say; None when it did not fail by itself.
        control: The line to the other launchers.
        signals: The signals that this launcher gets.
        clock: Seconds, never going back.
        wait: Waits for the first of some sources.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        start: Start,
        diagnose: Diagnose,
        control: Control,
        signals: Signals,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = wait_for,
    ) -> None:
        self._assignments = assignments
        self._start = start
        self._diagnose = diagnose
        self._control = control
        self._signals = signals
        self._clock = clock
        self._wait = wait
        self._phase = Phase.RUNNING
        self._workers: dict[int, Worker] = {}
        indices = [*(assignment.index for assignment in assignments), *control.remote]
        self._progress = {index: Progress(index) for index in sorted(indices)}
        self._failures: list[Failure] = []
        self._blamed: tuple[int, ...] = ()
        self._stop: Stop | None = None
        self._code = 0

    @property
    def phase(self) -> Phase:
        """Where in its life the group is."""
        return self._phase

    def run(self) -> Outcome:
        """Starts the workers and returns when none is left."""
        try:
            self._start_all()
            while self._phase is Phase.RUNNING:
                self._observe()
                self._judge()
                self._pause()
            if self._phase is Phase.RELEASED:
                self._see_off()
            if self._phase is Phase.ENDING:
                self._end_all()
            return self._outcome()
        finally:
            self._clean_up()

    def _start_all(self) -> None:
        for assignment in self._assignments:
            if self._signals.received:
                return
            try:
                self._workers[assignment.index] = self._start(assignment)
            except (OSError, TfdistError) as error:
                self._fail(from_start(assignment.index, error, address=assignment.address))
                return

    def _pause(self) -> None:
        sources: list[Source] = [self._signals]
        if self._phase is Phase.RUNNING:
            # Later nobody reads what these say, and they would end every wait at once.
            sources += [worker for worker in self._workers.values() if worker.poll() is None]
            sources += self._control.sockets()
        self._wait(sources, _TICK_SECONDS)
        self._signals.drain()

    def _observe(self) -> None:
        for worker in self._workers.values():
            self._look_at(worker)
        for event in self._control.events():
            self._hear(event)
        if self._signals.received and self._stop is None:
            self._stop = Stop(128 + self._signals.received[0], describe_signal(self._signals.received[0]))
            self._end(Ended(stop=self._stop))

    def _look_at(self, worker: Worker) -> None:
        progress = self._progress[worker.index]
        if progress.gone:
            return
        exit_code = worker.poll()
        # Asked after the exit: a worker's last word may have come just before it.
        code = worker.reported()
        if exit_code is not None:
            failure = self._diagnose(worker, exit_code)
            if failure is not None:
                self._fail(failure)
                return
            code = exit_code if code is None and progress.code is None else code
            self._update(replace(progress, gone=True), code)
        elif code is not None:
            self._update(progress, code)

    def _update(self, progress: Progress, code: int | None) -> None:
        if code is not None:
            progress = replace(progress, code=code, since=self._clock())
        self._progress[progress.index] = progress
        if not self._control.leads and progress.code is not None and self._phase is Phase.RUNNING:
            self._control.tell(Done(progress.index, progress.code, progress.gone))

    def _fail(self, failure: Failure) -> None:
        self._failures.append(failure)
        self._progress[failure.index] = replace(self._progress[failure.index], gone=True, failed=True)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Done) and event.index in self._control.remote:
            self._progress[event.index] = Progress(event.index, event.code, event.gone, since=self._clock())
        elif isinstance(event, Released) and self._phase is Phase.RUNNING:
            self._release(event.code)
        elif isinstance(event, Ended) and self._phase is Phase.RUNNING:
            self._failures += event.failures
            self._blame(event.blamed)
            self._stop = event.stop
            self._phase = Phase.ENDING

    def _judge(self) -> None:
        if self._phase is not Phase.RUNNING:
            return
        everybody = list(self._progress.values())
        decision = decide(everybody, self._clock())
        if decision.verdict is Verdict.END and (self._control.leads or any(worker.failed for worker in everybody)):
            self._blame(decision.culprits)
            self._end(Ended(first_to_last(self._failures), blamed=decision.culprits))
        elif decision.verdict is Verdict.RELEASE and self._control.leads:
            self._control.tell(Released(decision.code))
            self._release(decision.code)

    def _blame(self, culprits: Sequence[int]) -> None:
        """Makes a failure of those local workers that left too early, and so have none yet."""
        self._blamed = tuple(index for index in culprits if index in self._progress)
        for index in culprits:
            progress, worker = self._progress.get(index), self._workers.get(index)
            if worker is not None and progress is not None and progress.code is not None and not progress.failed:
                self._fail(from_exit(index, progress.code, **describe(worker)))

    def _release(self, code: int) -> None:
        self._phase = Phase.RELEASED
        self._code = code
        for worker in self._workers.values():
            worker.release()

    def _end(self, event: Ended) -> None:
        self._control.tell(event)
        self._phase = Phase.ENDING

    def _see_off(self) -> None:
        deadline = self._clock() + LEAVE_SECONDS
        while self._living() and not self._signals.received and self._clock() < deadline:
            self._pause()
        self._shut_down()
        self._phase = Phase.OVER

    def _end_all(self) -> None:
        self._shut_down()
        for worker in self._workers.values():
            if not self._progress[worker.index].failed:
                self._look_at(worker)
        if self._stop is None:
            patience = SETTLE_SECONDS if self._control.leads else 2 * SETTLE_SECONDS
            self._failures = list(self._control.settle(self._failures, patience))
            # Blamed, and its launcher could not say more: the job failed all the same.
            self._failures = self._failures or [
                from_exit(index, self._progress[index].code or 0) for index in self._blamed
            ]
        self._phase = Phase.OVER

    def _shut_down(self) -> None:
        if not self._living():
            return
        signals = len(self._signals.received)
        for worker in self._workers.values():
            worker.terminate()
        deadline = self._clock() + TERM_SECONDS
        while self._living() and self._clock() < deadline and len(self._signals.received) == signals:
            self._pause()
        self._kill_all()

    def _kill_all(self) -> None:
        for worker in self._workers.values():
            worker.kill()
        deadline = self._clock() + KILL_SECONDS
        while self._living() and self._clock() < deadline:
            self._pause()

    def _living(self) -> bool:
        return any(worker.poll() is None for worker in self._workers.values())

    def _outcome(self) -> Outcome:
        if self._stop is not None:
            return Outcome(self._stop.code, stop=self._stop)
        failures = first_to_last(self._failures)
        return Outcome(failures[0].exit_code if failures else self._code, failures)

    def _clean_up(self) -> None:
        self._kill_all()
        for worker in self._workers.values():
            worker.close()
