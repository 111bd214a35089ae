"""A scripted attempt: fake workers and a fake clock, in milliseconds."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from typing import Any

from tests.helpers.launch_fakes import FakeCoordinator, FakeWorker, assignments, beat, stage
from tfdist.launch.agent.attempt import AttemptState, GroupAttempt
from tfdist.launch.peers.messages import Event
from tfdist.launch.run_result import RunResult

ABORT = -signal.SIGABRT
"""How TensorFlow ends a worker when another one is gone, among others."""

CRASH = -signal.SIGSEGV
ASKED = {"dump": {"stacks": "File x", "where": "train.py line 3 in main"}}
"""The answer of a worker that is asked for its stacks."""


@dataclasses.dataclass
class ScriptedAttempt:
    """How one attempt went; `seconds` are those of the fake clock."""

    result: RunResult
    coordinator: FakeCoordinator
    workers: list[FakeWorker]
    seconds: float
    state: AttemptState


def run_attempt(
    *workers: dict[str, Any],
    leads: bool = True,
    remote: tuple[int, ...] = (),
    script: Sequence[tuple[float, Event]] = (),
    signals_at: Sequence[tuple[float, int]] = (),
    grace: float = 30.0,
) -> ScriptedAttempt:
    """Runs one attempt; the options are those of `stage` and its dependencies."""
    scene = stage(workers, leads=leads, remote=remote, script=script, signals_at=signals_at)
    attempt = GroupAttempt(assignments(len(workers), len(remote)), scene.dependencies(grace))
    with scene.signals:
        result = attempt.run()
    return ScriptedAttempt(result, scene.coordinator, scene.workers[0], scene.clock.now, attempt.state)


def finished(seconds: float, code: int) -> dict[str, Any]:
    """A worker that is done."""
    return {"says": [(seconds, {"finished": code})]}


def holding(begun: int | None, **fields: Any) -> dict[str, Any]:
    """A worker that, when held, says how many batches it has begun, and stops where it is told to."""
    return {"answers": {"hold": {"begun": begun}, "stop": {"finished": 143}}, **fields}


def training(step: int, *, limit: float | None = 10.0, at: float = 1.0, **fields: Any) -> dict[str, Any]:
    """A worker that has reached a step and says nothing more unless it is asked."""
    return {"says": [(at, beat(step, limit=limit))], "answers": ASKED, **fields}


DONE = finished(1.0, 0)
HANGS = {"obeys_term": False}
"""Only SIGKILL ends it."""
