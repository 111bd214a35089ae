"""Notices that the workers of an attempt hang, and finds out where each of them is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.agent.failures import Failure
from tfdist.launch.agent.hang_blame import STOPPED, ProgressClock, explain_hang
from tfdist.launch.agent.stack_requests import StackRequest
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Beat, DumpStacks, Event, WorkerStacks
from tfdist.launch.worker.worker_handle import Worker
from tfdist.rundir.worker_state import WorkerState


class HangDetector:
    """The leader decides from what every worker says; the other launchers pass on what theirs say.

    Args:
        workers: This launcher's workers by their indices; they are added as they start.
        control: The line to the other launchers.
        clock: Seconds, never going back.
    """

    def __init__(self, workers: Mapping[int, Worker], control: Coordinator, clock: Callable[[], float]) -> None:
        self._workers = workers
        self._control = control
        self._clock = clock
        self._motion = ProgressClock()
        self._asking: StackRequest | None = None
        self._signalled = False

    @property
    def states(self) -> Mapping[int, WorkerState]:
        """What each worker that is not done said last; of the whole job for the leader."""
        return self._motion.states

    def beat(self, content: Any) -> WorkerState | None:
        """Takes in what a worker of this launcher says of itself; returns it, or None when it is not understood."""
        try:
            state = WorkerState.from_dict(content)
        except RunDirError:
            return None
        self._motion.note(state, self._clock())
        if not self._control.leads:
            self._control.tell(Beat(state))
        return state

    def answer(self, worker: Worker, where: str, text: str = "", called: str = "") -> None:
        """Takes in where a worker of this launcher is."""
        stacks = WorkerStacks(worker.index, where, text, called, str(worker.log))
        if self._asking is not None:
            self._asking.take(stacks)
        if not self._control.leads:
            self._control.tell(stacks)

    def hear(self, event: Event) -> None:
        """Takes in what another launcher says."""
        if isinstance(event, Beat):
            self._motion.note(event.state, self._clock())
        elif isinstance(event, DumpStacks):
            self._ask(self._workers)
        elif isinstance(event, WorkerStacks) and self._asking is not None:
            self._asking.take(event)

    def done(self, index: int) -> None:
        """A worker is done, or gone."""
        self._motion.forget(index)

    def tick(self) -> tuple[Failure, ...]:
        """Gets on; returns the failures when the workers hang and it is known where."""
        now = self._clock()
        if self._asking is None:
            if self._control.leads and self._motion.hangs_since(now) is not None:
                self._control.tell(DumpStacks())
                self._ask(self.states)
            return ()
        if self._asking.wants_signal(now) and not self._signalled:
            self._signalled = True
            # Who has said nothing yet may not have come as far as to hear the signal, and would die of it.
            for index in set(self._asking.silent) & set(self._workers) & set(self.states):
                self._workers[index].dump_natively()
        if not self._asking.is_over(now):
            return ()
        answers, self._asking = self._asking.answers, None
        seconds = self._motion.hangs_since(now)
        if not self._control.leads or seconds is None:
            # It moves again: whoever looked stuck has found its way.
            return ()
        return explain_hang(self.states, answers, {i: str(worker.log) for i, worker in self._workers.items()}, seconds)

    def _ask(self, asked: Mapping[int, Any]) -> None:
        self._asking = StackRequest(asked, self._clock())
        self._signalled = False
        for worker in self._workers.values():
            if worker.poll() is not None:
                continue
            if worker.is_stopped():
                self.answer(worker, STOPPED)
            else:
                worker.send({"dump": True})
