"""Workers that wait for one whose script has ended, and so for ever: `fit`, `evaluate` and `predict` are for all.

Decided from what the workers say of themselves, without any effect.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tfdist.launch.peers.messages import WorkerStacks
from tfdist.rundir.failure import Failure
from tfdist.rundir.worker_state import State, WorkerState


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
        states: The latest state of each worker.
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
    """Whether a worker is in a call, a step or a collective that another one has never begun."""
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
