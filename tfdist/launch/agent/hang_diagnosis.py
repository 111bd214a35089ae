"""Diagnosis of a hang: which workers hold the others up, and which only wait for them.

Decided from what the workers say of themselves, without any effect.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping

from tfdist.launch.peers.messages import WorkerStacks
from tfdist.launch.peers.root_cause import WAITING
from tfdist.launch.worker.worker_process import SILENT, STOPPED, Worker, process_facts
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import State, WorkerState

_MAX_CHARACTERS = 2_000_000
"""Of the stacks of all workers to blame: they go to the other launchers in one message."""


def explain_hang(
    states: Mapping[int, WorkerState],
    answers: Mapping[int, WorkerStacks],
    logs: Mapping[int, str],
    seconds: float,
    silences: Mapping[int, str] | None = None,
) -> tuple[Failure, ...]:
    """The failures of a hang: of the workers that hold the others up, and of those that wait for them.

    Args:
        answers: The stacks of each worker; workers that did not answer may be absent.
        logs: Paths of the logs, as far as they are known here.
        seconds: Time without progress.
        silences: Why workers of this machine did not answer, as far as the system tells.
    """
    silences = silences or {}
    silent = {index for index in states if _is_silent(answers.get(index))}
    late = laggards(states.values(), silent, {index for index, answer in answers.items() if answer.called})
    furthest = max(states.values(), key=_reached)
    failures = []
    for index, state in sorted(states.items()):
        answer = answers.get(index, WorkerStacks(index, silences.get(index, SILENT), ""))
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
                traceback=answer.text[: _MAX_CHARACTERS // len(late)] if index in late else "",
                epoch=None if state.is_forming else state.epoch,
                step=None if state.is_forming else state.step,
                log=answer.log or logs.get(index, ""),
            )
        )
    return tuple(failures)


def explain_stall(worker: Worker, state: WorkerState | None, why: str) -> Failure:
    """The failure of a worker that does not run, for which the others' collective broke off.

    Args:
        state: The last that it said of itself; None where it has said nothing yet.
    """
    doing = "before its first report" if state is None else _doing(state)
    return Failure(
        index=worker.index,
        host=socket.gethostname(),
        time=time.time(),
        kind="hang",
        message=f"hangs: {why}. It is {doing}, and a collective of the other workers broke off for it",
        epoch=None if state is None or state.is_forming else state.epoch,
        step=None if state is None or state.is_forming else state.step,
        **process_facts(worker),
    )


def laggards(states: Iterable[WorkerState], silent: Iterable[int] = (), busy: Iterable[int] = ()) -> set[int]:
    """The workers that the others wait for: those that are least advanced.

    Among equally advanced workers they are those that do not answer, or else those that are busy in a function of the
    user, such as one that loads their input. When no worker stands out, all are returned.

    Args:
        silent: Workers that do not answer.
        busy: Workers in which functions of the user run outside of the main thread.
    """
    states = list(states)
    least = min(map(_reached, states))
    late = {state.index for state in states if _reached(state) == least}
    return late & set(silent) or late & set(busy) or late


def _reached(state: WorkerState) -> tuple[int, int, bool]:
    """How advanced a worker is, as a sort key: after a step come callbacks, then an evaluation, then the next step."""
    return state.step, _ORDER[state.state], state.is_forming


_ORDER = {
    State.FAILED: 0,
    State.STOPPED: 0,
    State.STARTING: 0,
    State.CALLBACK: 1,
    State.SAVING: 1,
    State.EVALUATING: 2,
    State.COMPILING: 3,
    State.STEP: 3,
    State.EXCHANGING: 3,
    State.FINISHED: 4,
}


def _is_silent(answer: WorkerStacks | None) -> bool:
    return answer is None or answer.where in (STOPPED, SILENT)


def _place(answer: WorkerStacks) -> str:
    """Returns where a worker is, in words, with the user's function that runs for it."""
    if not answer.called:
        return answer.where
    return f"{answer.where}, while {answer.called} runs (input pipeline, or a Python function inside of the model)"


def _message(state: WorkerState, furthest: WorkerState, where: str, seconds: float, *, is_late: bool) -> str:
    if state.is_forming:  # it cannot answer: TensorFlow's native code holds the GIL there
        return f"hangs: for {seconds:.0f} s it has waited {_FORMING}" if is_late else "waits for the cluster to form"
    doing = _doing(state)
    if not is_late:
        return f"waits {doing}: {where}"
    missed = f", and it has not reached step {furthest.step + 1}" if state.step < furthest.step else ""
    return f"hangs: for {seconds:.0f} s nothing has moved{missed}. It is {doing}: {where}"


def _doing(state: WorkerState) -> str:
    """Returns what a worker is doing, in words that follow "is"."""
    next_step = state.step + 1
    several = state.begun > next_step
    steps = f"one of the steps {next_step} to {state.begun}, which run together" if several else f"step {next_step}"
    return _DOING[state.state].format(done=state.step, steps=steps)


_FORMING = (
    "for TensorFlow to form the cluster, for which each worker must reach all others on their ports: `tfdist doctor "
    "--workers ...` finds out whether they do"
)

_DOING = {
    State.STARTING: "outside of fit, evaluate and predict",
    State.COMPILING: "in a first step, which compiles",
    State.STEP: "in {steps}",
    State.EXCHANGING: "in a collective that the script calls",
    State.CALLBACK: "in a callback after step {done}",
    State.EVALUATING: "evaluating after step {done}",
    State.SAVING: "saving after step {done}",
    State.FINISHED: "at its end",
    State.FAILED: "failing",
    State.STOPPED: "stopping",
}
