"""Tests of what the launcher keeps for its metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfdist.launch.metrics.run_metrics import RunMetrics
from tfdist.rundir.state_records import State, WorkerState


def state(index: int = 0, step: int = 0, **more: Any) -> WorkerState:
    known = {"address": None, "host": "h", "pid": 1, "attempt": 0, "state": State.STEP, "epoch": 0}
    return WorkerState(**{"index": index, "step": step, "time": 100.0 + step, **known, **more})


def test_the_last_step_is_the_last_that_was_seen_to_end() -> None:
    metrics = RunMetrics("digits", 5)
    metrics.observe({0: state(step=7)})
    assert metrics.facts.last_step is None  # it may have been done before the launcher resumed the run
    metrics.observe({0: state(step=9)})
    assert metrics.facts.last_step == 109
    metrics.observe({0: replace(state(step=9), time=150.0, state=State.SAVING)})
    assert metrics.facts.last_step == 109
    metrics.observe({0: state(step=20, attempt=1)})  # restored from a checkpoint
    assert metrics.facts.last_step == 109
    metrics.observe({0: state(step=21, attempt=1)})
    assert metrics.facts.last_step == 121


def test_a_worker_that_is_done_keeps_its_last_state() -> None:
    metrics = RunMetrics()
    metrics.observe({0: state(0), 1: state(1, state=State.FINISHED)})
    metrics.observe({0: state(0, step=3)})
    assert metrics.facts.states == {0: state(0, step=3), 1: state(1, state=State.FINISHED)}


def test_a_restart_names_who_failed_until_the_next_attempt() -> None:
    metrics = RunMetrics()
    metrics.observe({0: state(0), 1: state(1)})
    metrics.restarted([1, 7])
    assert metrics.facts.restarts == 1
    assert {index: known.state for index, known in metrics.facts.states.items()} == {0: State.STEP, 1: State.FAILED}
    metrics.observe({1: state(1, attempt=1)})
    assert metrics.facts.states[1].state is State.STEP
