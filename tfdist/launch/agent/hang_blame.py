"""When a group hangs, and who holds it up: decided from what the workers say of themselves, without any effect."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tfdist.launch.agent.failures import WAITING, Failure
from tfdist.launch.peers.messages import WorkerStacks
from tfdist.rundir.worker_state import State, WorkerState

STOPPED = "its process is stopped (SIGSTOP, Ctrl-Z, a debugger)"
_MOST_CHARACTERS = 2_000_000
"""Of the stacks of all workers to blame: they go to the other launchers in one message."""
SILENT = "it does not answer: its machine is out of reach, or native code does not let Python run"


class ProgressClock:
    """When the workers of a job have last got on.

    A worker counts while it trains, evaluates or predicts, and as long as one worker gets on, nobody hangs: the others
    may wait for it.
    """

    def __init__(self) -> None:
        self._states: dict[int, WorkerState] = {}
        self._moved = 0.0

    @property
    def states(self) -> Mapping[int, WorkerState]:
        """What each worker said last."""
        return self._states

    def note(self, state: WorkerState, now: float) -> None:
        """Takes in what a worker says of itself."""
        before = self._states.get(state.index)
        if before is None or before.moves != state.moves or before.state != state.state:
            self._moved = now
        self._states[state.index] = state

    def forget(self, index: int) -> None:
        """A worker is done."""
        self._states.pop(index, None)

    def hangs_since(self, now: float) -> float | None:
        """Seconds without any move, when that is more than any worker may take; else None."""
        limits = [state.limit for state in self._states.values() if state.limit is not None]
        still = now - self._moved
        return still if limits and still > max(limits) else None


def explain_hang(
    states: Mapping[int, WorkerState], answers: Mapping[int, WorkerStacks], logs: Mapping[int, str], seconds: float
) -> tuple[Failure, ...]:
    """The failures of a hang: those that hold the others up, and those that wait for them.

    Args:
        states: What each worker said last.
        answers: Where each worker is; those that did not answer may be absent.
        logs: Paths of the logs, as far as they are known here.
        seconds: How long nothing has moved.
    """
    silent = {index for index in states if _is_silent(answers.get(index))}
    late = laggards(states.values(), silent, {index for index, answer in answers.items() if answer.called})
    furthest = max(states.values(), key=_reached)
    failures = []
    for index, state in sorted(states.items()):
        answer = answers.get(index, WorkerStacks(index, SILENT, ""))
        failures.append(
            Failure(
                index=index,
                host=state.host,
                time=time.time(),
                kind="hang",
                message=_message(state, furthest, _place(answer), seconds, is_late=index in late),
                address=state.address,
                pid=state.pid,
                type="" if index in late else WAITING,
                traceback=answer.text[: _MOST_CHARACTERS // len(late)] if index in late else "",
                epoch=None if state.is_forming else state.epoch,
                step=None if state.is_forming else state.step,
                log=answer.log or logs.get(index, ""),
            )
        )
    return tuple(failures)


def laggards(states: Iterable[WorkerState], silent: Iterable[int] = (), busy: Iterable[int] = ()) -> set[int]:
    """The workers for which the others wait: those that are least far.

    Among equals they are those that do not answer, or else those that are busy with a function of the user, such as one
    that loads their input: the others' are done. When nobody can be told from the others, all are returned.

    Args:
        states: What each worker said last.
        silent: Those that do not answer.
        busy: Those in which functions of the user run besides the main thread.
    """
    states = list(states)
    least = min(map(_reached, states))
    late = {state.index for state in states if _reached(state) == least}
    return late & set(silent) or late & set(busy) or late


def _reached(state: WorkerState) -> tuple[int, int, bool]:
    """How far a worker is, to compare: a callback comes after a step, an evaluation later, and then the next step."""
    return state.step, _ORDER[state.state], state.is_forming


_ORDER = {
    State.FAILED: 0,
    State.STARTING: 0,
    State.CALLBACK: 1,
    State.SAVING: 1,
    State.EVALUATING: 2,
    State.COMPILING: 3,
    State.STEP: 3,
    State.FINISHED: 4,
}


def _is_silent(answer: WorkerStacks | None) -> bool:
    return answer is None or answer.where in (STOPPED, SILENT)


def _place(answer: WorkerStacks) -> str:
    """Where a worker is, in words."""
    if not answer.called:
        return answer.where
    return f"{answer.where}, while {answer.called} runs (input pipeline, or a Python function inside of the model)"


def _message(state: WorkerState, furthest: WorkerState, where: str, seconds: float, *, is_late: bool) -> str:
    if state.is_forming:  # it cannot answer: TensorFlow's native code holds Python's lock there
        return f"hangs: for {seconds:.0f} s it has waited {_FORMING}" if is_late else "waits for the cluster to form"
    doing = _DOING[state.state].format(done=state.step, step=state.step + 1)
    if not is_late:
        return f"waits {doing}: {where}"
    missed = f", and it has not reached step {furthest.step + 1}" if state.step < furthest.step else ""
    return f"hangs: for {seconds:.0f} s nothing has moved{missed}. It is {doing}: {where}"


_FORMING = (
    "for TensorFlow to form the cluster, for which each worker must reach all others on their ports: `tfdist doctor "
    "--workers ...` finds out whether they do"
)

_DOING = {
    State.STARTING: "outside of fit, evaluate and predict",
    State.COMPILING: "in a first step, which compiles",
    State.STEP: "in step {step}",
    State.CALLBACK: "in a callback after step {done}",
    State.EVALUATING: "evaluating after step {done}",
    State.SAVING: "saving after step {done}",
    State.FINISHED: "at its end",
    State.FAILED: "failing",
}
