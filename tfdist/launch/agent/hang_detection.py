"""Hang detection: notices that the workers of an attempt make no progress, and asks each of them where it is.

The leader decides, from the heartbeats of all workers; the other launchers forward those of their own. When no worker
has made progress for longer than any of them may take, all are asked for their stacks. From the answers
`hang_diagnosis` tells the workers that hold the others up from those that only wait.

Workers that wait for one whose script has ended, and so for ever: `fit`, `evaluate` and `predict` are for all.

Decided from what the workers say of themselves, without any effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfdist.errors import RunDirError
from tfdist.launch.agent.hang_diagnosis import explain_hang, explain_stall
from tfdist.launch.peers.coordinator import Coordinator
from tfdist.launch.peers.messages import Beat, DumpStacks, Event, WorkerStacks, beat_seconds
from tfdist.launch.worker.worker_process import NATIVE, STOPPED, ProcessSample, Worker, why_silent
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import State, WorkerState

ANSWER_SECONDS = 4.0
"""Seconds for the workers to send their stacks; after half of it the silent ones get a signal to dump them."""

ENDED_SECONDS = 3.0
"""Seconds without progress that are allowed where the workers at work seem to wait for one whose script has ended."""

STALL_SECONDS = 2.0
"""Seconds that the workers may take where the attempt has failed; less than the leader waits for others' failures."""


class ProgressClock:
    """The time since any worker of a job made progress.

    A worker counts while it trains, evaluates or predicts. As long as one worker makes progress, none hangs: the others
    may be waiting for it.
    """

    def __init__(self) -> None:
        self._states: dict[int, WorkerState] = {}
        self._ended: dict[int, WorkerState] = {}
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
        state = self._states.pop(index, None)
        if state is not None and state.state is State.FINISHED:
            self._ended[index] = state

    def waits_for_ended(self, now: float) -> Mapping[int, int]:
        """The workers that wait for one whose script has ended, and for which; none while any makes progress."""
        if not self._ended or now - self._moved < ENDED_SECONDS:
            return {}
        return waits_for_ended(self._states.values(), self._ended.values())

    def hangs_since(self, now: float) -> float | None:
        """Seconds without progress, when they exceed the limit of every worker; else None."""
        limits = [state.limit for state in self._states.values() if state.limit is not None]
        still = now - self._moved
        return still if limits and still > max(limits) else None


class StackRequest:
    """A request for the stacks of all workers, and the answers to it.

    Args:
        now: When they were asked, in seconds of the clock.
    """

    def __init__(self, asked: Iterable[int], now: float, seconds: float = ANSWER_SECONDS) -> None:
        self._silent = set(asked)
        self.asked_at = now
        self._seconds = seconds
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
        """Returns whether it is time for the signal on which even a blocked interpreter dumps its stacks."""
        return bool(self._silent) and now - self.asked_at > self._seconds / 2

    def is_over(self, now: float) -> bool:
        """Returns whether all have answered, or their time is up."""
        return not self._silent or now - self.asked_at > self._seconds


class HangDetector:
    """Watches the workers of one attempt.

    Args:
        workers: This launcher's workers by index; they are added as they start.
    """

    def __init__(self, workers: Mapping[int, Worker], coordinator: Coordinator, clock: Callable[[], float]) -> None:
        self._workers = workers
        self._coordinator = coordinator
        self._clock = clock
        self._progress = ProgressClock()
        self._request: StackRequest | None = None
        self._signalled = False
        self._samples: dict[int, ProcessSample | None] = {}
        self._beat_seconds = beat_seconds(len(coordinator.remote))
        self._passed_on: dict[int, tuple[WorkerState, float]] = {}

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
            self._pass_on(state)
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
            if self._coordinator.leads and self._holds(now):
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
        request, self._request = self._request, None
        waits = self._progress.waits_for_ended(now) if self._coordinator.leads else {}
        if waits:
            return explain_waits(self.states, waits, request.answers)
        seconds = self._progress.hangs_since(now)
        if not self._coordinator.leads or seconds is None:
            # There was progress meanwhile: nobody hangs.
            return ()
        logs = {index: str(worker.log) for index, worker in self._workers.items()}
        return explain_hang(self.states, request.answers, logs, seconds, self._silences(request))

    def _holds(self, now: float) -> bool:
        """Returns whether the workers have made no progress for too long, or none can come."""
        return self._progress.hangs_since(now) is not None or bool(self._progress.waits_for_ended(now))

    def ask_for_stalls(self, asked: Iterable[int]) -> None:
        """Asks workers of this launcher whether they still run, when those of others have failed for no other cause."""
        self._ask(asked, STALL_SECONDS)

    def stalls(self) -> list[Failure] | None:
        """After `ask_for_stalls`: the failures of the workers that do not run; None while some may still answer.

        Native code that does not let Python run is none: TensorFlow's threads answer the other workers all the same.
        """
        assert self._request is not None, "ask_for_stalls comes first"
        if not self._request.is_over(self._clock()):
            return None
        stopped = {index: STOPPED for index, answer in self._request.answers.items() if answer.where == STOPPED}
        # One that is starting, or forms the cluster, cannot answer yet.
        running = {index for index, state in self.states.items() if state.state is not State.STARTING}
        silences = {index: why for index, why in self._silences(self._request).items() if index in running}
        found = {index: why for index, why in silences.items() if why != NATIVE} | stopped
        return [explain_stall(self._workers[index], self.states.get(index), why) for index, why in found.items()]

    def _pass_on(self, state: WorkerState) -> None:
        """Tells the leader what is new; in a large job progress alone only now and then."""
        now = self._clock()
        before, told_at = self._passed_on.get(state.index, (None, 0.0))
        is_change = before is None or _what_counts(before) != _what_counts(state)
        if is_change or now - told_at >= self._beat_seconds:
            self._passed_on[state.index] = state, now
            self._coordinator.tell(Beat(state))

    def _silences(self, request: StackRequest) -> dict[int, str]:
        """Returns why each silent worker of this launcher does not answer."""
        seconds = self._clock() - request.asked_at
        silent = [index for index in request.silent if index in self._workers]
        return {index: why_silent(self._samples.get(index), self._workers[index].sample(), seconds) for index in silent}

    def _ask(self, asked: Iterable[int], seconds: float = ANSWER_SECONDS) -> None:
        self._request = StackRequest(asked, self._clock(), seconds)
        self._signalled = False
        self._samples = {index: worker.sample() for index, worker in self._workers.items() if worker.poll() is None}
        for index, sample in self._samples.items():
            worker = self._workers[index]
            if sample is not None and sample.is_stopped:
                self.answer(worker, STOPPED)
            else:
                worker.send({"dump": True})


def _what_counts(state: WorkerState) -> tuple[object, ...]:
    """Returns what the leader has to know of at once."""
    return state.state, state.limit, state.attempt, state.pid, state.calls


def waits_for_ended(at_work: Iterable[WorkerState], ended: Iterable[WorkerState]) -> dict[int, int]:
    """Each worker that is in what a worker that has ended never came to, and the one that it waits for.

    Args:
        at_work: The latest state of each worker that is not done.
        ended: The last state of each worker whose script has ended.
    """
    ended = list(ended)
    waits = {}
    for state in at_work:
        awaited = next((other.index for other in ended if _is_beyond(state, other)), None)
        if awaited is not None:
            waits[state.index] = awaited
    return waits


def explain_waits(
    states: Mapping[int, WorkerState], waits: Mapping[int, int], answers: Mapping[int, WorkerStacks]
) -> tuple[Failure, ...]:
    """The failures of the workers that wait for one whose script has ended.

    Args:
        waits: See `waits_for_ended`.
        answers: Where the workers are; those that did not answer may be absent.
    """
    failures = []
    for index, awaited in sorted(waits.items()):
        state, answer = states[index], answers.get(index)
        has_trained = state.step > 0
        failures.append(
            Failure(
                index=index,
                host=state.host,
                time=time.time(),
                kind="hang",
                message=_message(state, awaited, "" if answer is None else f", at {answer.where}"),
                address=state.address,
                pid=state.pid,
                epoch=state.epoch if has_trained else None,
                step=state.step if has_trained else None,
                log="" if answer is None else answer.log,
            )
        )
    return tuple(failures)


def _is_beyond(state: WorkerState, ended: WorkerState) -> bool:
    """Returns whether a worker is in a call, a step or a collective that another one has never begun."""
    if state.call and state.calls > ended.calls:
        return True
    return state.state is State.EXCHANGING or (state.state is State.STEP and state.begun > ended.begun)


def _message(state: WorkerState, awaited: int, where: str) -> str:
    what = state.call or "a collective"
    return (
        f"waits in {what}{where}, for worker {awaited}, whose script has ended. Expected all workers to call "
        "fit, evaluate, predict and collectives alike. Is this one under tfdist.is_chief(), or in another condition "
        "that only some workers meet? Take it out of that."
    )
