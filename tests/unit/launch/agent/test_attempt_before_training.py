"""A worker that fails before its first batch: it was in no epoch yet."""

from __future__ import annotations

import signal

import pytest

from tests.unit.launch.fakes import assignments, beat, stage
from tfdist.launch.agent.attempt import GroupAttempt
from tfdist.rundir.worker_state import State


@pytest.mark.parametrize("last", [State.STARTING, State.FAILED])
def test_it_was_at_no_step(last: State) -> None:
    scene = stage([{"says": [(1.0, beat(0, state=last))], "ends": (3.0, -signal.SIGABRT)}])
    with scene.signals:
        [failure] = GroupAttempt(assignments(1), scene.dependencies()).run().failures
    assert (failure.epoch, failure.step) == (None, None)


def test_later_it_was_where_it_said_last() -> None:
    scene = stage([{"says": [(1.0, beat(12, state=State.FAILED))], "ends": (3.0, -signal.SIGABRT)}])
    with scene.signals:
        [failure] = GroupAttempt(assignments(1), scene.dependencies()).run().failures
    assert (failure.epoch, failure.step) == (0, 12)
