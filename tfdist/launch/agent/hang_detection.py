"""Hang detection: notices that the workers of an attempt make no progress, and asks each of them where it is.

The leader decides, from the heartbeats of all workers; the other launchers forward those of their own. When no worker
has made progress for longer than any of them may take, all are asked for their stacks. From the answers `hang_blame`
tells the workers that hold the others up from those that only wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.agent.hang_blame import STOPPED, explain_hang
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Beat, DumpStacks, Event, WorkerStacks
from tfdist.launch.worker.worker_handle import Worker
from tfdist.rundir.failure import Failure
from tfdist.rundir.worker_state import WorkerState

ANSWER_SECONDS = 4.0
"""How long the workers may take to send their stacks; after half of it the silent ones get a signal to dump them."""


class ProgressClock:
    """How long it is since any worker of a job made progress.

    A worker counts while it trains, evaluates or predicts. As long as one worker makes progress, none hangs: the others
    may be waiting for it.
    """

    def __init__(self) -> None:
        self._states: dict[int, WorkerState] = {}
        self._moved = 0.0

    @property
    def states(self) -> Mapping[int, WorkerState]:
        """The latest state of each worker."""
        return self._states

    def note(self, state: WorkerState, now: float) -> None:
        """Records the state that a worker reports."""
        before = self._states.get(state.index)
        if before is None or before.moves != state.moves or before.state != state.state:
            self._moved = now
        self._states[state.index] = state

    def forget(self, index: int) -> None:
        """Drops a worker that is done."""
        self._states.pop(index, None)

    def hangs_since(self, now: float) -> float | None:
        """Seconds without progress, when they exceed the limit of every worker; else None."""
        limits = [state.limit for state in self._states.values() if state.limit is not None]
        still = now - self._moved
        return still if limits and still > max(limits) else None


class StackRequest:
    """A request for the stacks of all workers, and the answers to it.

    Args:
        asked: The workers.
        now: When they were asked, in seconds of the clock.
    """

    def __init__(self, asked: Iterable[int], now: float) -> None:
        self._silent = set(asked)
        self._asked_at = now
        self.answers: dict[int, WorkerStacks] = {}

    @property
    def silent(self) -> tuple[int, ...]:
        """The workers that have not answered."""
        return tuple(sorted(self._silent))

    def take(self, answer: WorkerStacks) -> None:
        """Records an answer."""
        if answer.index in self._silent:
            self._silent.discard(answer.index)
            self.answers[answer.index] = answer

    def wants_signal(self, now: float) -> bool:
        """Whether it is time for the signal on which even a blocked interpreter dumps its stacks."""
        return bool(self._silent) and now - self._asked_at > ANSWER_SECONDS / 2

    def is_over(self, now: float) -> bool:
        """Whether all have answered, or their time is up."""
        return not self._silent or now - self._asked_at > ANSWER_SECONDS


class HangDetector:
    """Watches the workers of one attempt.

    Args:
        workers: This launcher's workers by index; they are added as they start.
        coordinator: The connection to the other launchers.
        clock: Seconds, monotonic.
    """

    def __init__(self, workers: Mapping[int, Worker], coordinator: Coordinator, clock: Callable[[], float]) -> None:
        self._workers = workers
        self._coordinator = coordinator
        self._clock = clock
        self._progress = ProgressClock()
        self._request: StackRequest | None = None
        self._signalled = False

    @property
    def states(self) -> Mapping[int, WorkerState]:
        """The latest state of each worker that is not done; the leader knows those of the whole job."""
        return self._progress.states

    def beat(self, content: Any) -> WorkerState | None:
        """Handles the heartbeat of a worker of this launcher; returns its state, or None for a malformed one."""
        try:
            state = WorkerState.from_dict(content)
        except RunDirError:
            return None
        self._progress.note(state, self._clock())
        if not self._coordinator.leads:
            self._coordinator.tell(Beat(state))
        return state

    def answer(self, worker: Worker, where: str, text: str = "", called: str = "") -> None:
        """Handles the stacks that a worker of this launcher sends."""
        stacks = WorkerStacks(worker.index, where, text, called, str(worker.log))
        if self._request is not None:
            self._request.take(stacks)
        if not self._coordinator.leads:
            self._coordinator.tell(stacks)

    def hear(self, event: Event) -> None:
        """Handles an event of another launcher."""
        if isinstance(event, Beat):
            self._progress.note(event.state, self._clock())
        elif isinstance(event, DumpStacks):
            self._ask(self._workers)
        elif isinstance(event, WorkerStacks) and self._request is not None:
            self._request.take(event)

    def done(self, index: int) -> None:
        """A worker is done, or gone."""
        self._progress.forget(index)

    def tick(self) -> tuple[Failure, ...]:
        """Advances the detection; returns the failures once the workers hang and have had time to say where."""
        now = self._clock()
        if self._request is None:
            if self._coordinator.leads and self._progress.hangs_since(now) is not None:
                self._coordinator.tell(DumpStacks())
                self._ask(self.states)
            return ()
        if self._request.wants_signal(now) and not self._signalled:
            self._signalled = True
            # A worker that has never sent a heartbeat may not handle the signal yet, and would die of it.
            for index in set(self._request.silent) & set(self._workers) & set(self.states):
                self._workers[index].dump_natively()
        if not self._request.is_over(now):
            return ()
        answers, self._request = self._request.answers, None
        seconds = self._progress.hangs_since(now)
        if not self._coordinator.leads or seconds is None:
            # There was progress meanwhile: nobody hangs.
            return ()
        return explain_hang(self.states, answers, {i: str(worker.log) for i, worker in self._workers.items()}, seconds)

    def _ask(self, asked: Iterable[int]) -> None:
        self._request = StackRequest(asked, self._clock())
        self._signalled = False
        for worker in self._workers.values():
            if worker.poll() is not None:
                continue
            if worker.is_stopped():
                self.answer(worker, STOPPED)
            else:
                worker.send({"dump": True})
