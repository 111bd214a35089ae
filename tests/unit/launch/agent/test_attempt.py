"""One attempt on one machine, with fake workers and a fake clock: how it ends, and who is to blame."""

from __future__ import annotations

import dataclasses
import signal
from typing import Any

import pytest

from tests.helpers.launch_fakes import assignments, beat, stage
from tests.helpers.scripted_attempt import ABORT, CRASH, DONE, HANGS, finished, run_attempt, training
from tfdist.launch.agent.attempt import AttemptState, GroupAttempt
from tfdist.launch.environment import Assignment
from tfdist.launch.peers.messages import AttemptEnded, Stop
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.process_termination import KILL_SECONDS, LEAVE_SECONDS, TERM_SECONDS
from tfdist.launch.worker.worker_process import Worker
from tfdist.rundir.state_records import State


def test_the_progress_that_the_chief_tells_is_passed_on() -> None:
    told: list[Any] = []
    scene = stage([{"says": [(1.0, {"progress": {"epoch": 2}}), (2.0, {"progress": None}), (3.0, {"finished": 0})]}])
    dependencies = dataclasses.replace(scene.dependencies(), progress=told.append)
    with scene.signals:
        assert GroupAttempt(assignments(1), dependencies).run() == RunResult(0)
    assert told == [{"epoch": 2}, None]


@pytest.mark.parametrize(
    ("workers", "code"),
    [
        ([DONE], 0),
        ([DONE, finished(50.0, 0)], 0),
        ([finished(1.0, 3), finished(4.0, 3)], 3),
        ([{"ends": (1.0, 3)}], 3),  # os._exit in a script, without a message
        ([{"ends": (1.0, 3)}, {"ends": (2.0, 3)}], 3),
    ],
)
def test_workers_that_agree_leave_together(workers: list[dict[str, object]], code: int) -> None:
    attempt = run_attempt(*workers)
    assert attempt.result == RunResult(code)
    assert attempt.state is AttemptState.OVER
    for worker in attempt.workers:
        assert worker.heard[-1] == "close"
        assert "TERM" not in worker.heard


@pytest.mark.parametrize(
    ("workers", "culprit", "seconds"),
    [
        ([{}, {"ends": (1.0, CRASH)}], 1, 1.0),
        ([DONE, {"ends": (3.0, CRASH)}], 1, 3.0),
        ([finished(1.0, 3), {}], 0, 6.0),  # the other is not done within 5 s
        ([{"ends": (1.0, 0)}, {}], 0, 2.5),  # it has left without waiting for the other
        ([{**finished(1.0, 0), "ends": (2.0, 0)}, {}], 0, 3.5),
        ([finished(1.0, 0), finished(2.0, 1)], 1, 2.0),
    ],
)
def test_a_failure_ends_the_others(workers: list[dict[str, object]], culprit: int, seconds: float) -> None:
    attempt = run_attempt(*workers)
    assert attempt.result.code == 4
    assert attempt.result.failures[0].index == culprit
    assert len(attempt.result.failures) == 1  # those that the launcher ended did not fail
    assert attempt.seconds < seconds + 1.5


def test_a_worker_that_ignores_sigterm_is_killed_within_two_seconds() -> None:
    attempt = run_attempt({"ends": (1.0, CRASH)}, HANGS, {})
    assert attempt.workers[1].heard == ["TERM", "KILL", "close"]
    assert attempt.workers[2].heard == ["TERM", "close"]
    assert attempt.seconds <= 1.0 + TERM_SECONDS + 0.5 <= 3.0
    assert KILL_SECONDS <= 2


def test_workers_that_relay_the_launchers_own_sigterm_stop_nothing() -> None:
    attempt = run_attempt({"ends": (1.0, ABORT)}, {"obeys_term": False, "relays_term": True})
    assert attempt.result.stop is None
    assert (attempt.result.code, attempt.result.failures[0].index) == (4, 0)


def test_a_signal_ends_a_released_worker_that_does_not_leave() -> None:
    attempt = run_attempt({**DONE, "leaves": False}, signals_at=[(5.0, signal.SIGINT)])
    assert (attempt.result.code, attempt.workers[0].heard) == (0, ["release", "TERM", "close"])
    assert attempt.seconds < 10


def test_a_job_succeeds_though_a_released_worker_does_not_leave() -> None:
    attempt = run_attempt({**DONE, "leaves": False, "obeys_term": False})
    assert attempt.result == RunResult(0)
    assert attempt.workers[0].heard == ["release", "TERM", "KILL", "close"]
    assert LEAVE_SECONDS < attempt.seconds < LEAVE_SECONDS + 10


def test_a_job_succeeds_though_a_released_worker_crashes() -> None:
    attempt = run_attempt({**DONE, "leaves": False, "ends": (1.5, ABORT)}, DONE)
    assert attempt.result == RunResult(0)


def test_a_worker_that_cannot_be_started_is_a_failure() -> None:
    def start(assignment: Assignment) -> Worker:
        raise OSError("no such interpreter")

    scene = stage([{}])
    dependencies = dataclasses.replace(scene.dependencies(), start=start)
    with scene.signals:
        result = GroupAttempt(assignments(1), dependencies).run()
    assert result.code == 4
    assert "no such interpreter" in result.failures[0].message


def test_a_failure_has_the_step_of_its_worker() -> None:
    attempt = run_attempt({**training(12), "ends": (3.0, ABORT)}, {})
    assert (attempt.result.failures[0].step, attempt.result.failures[0].epoch) == (12, 0)


@pytest.mark.parametrize(
    ("step", "state", "place"),
    [
        (0, State.STARTING, (None, None)),  # it was in no epoch yet
        (0, State.FAILED, (None, None)),
        (12, State.FAILED, (0, 12)),
    ],
)
def test_a_worker_that_fails_before_its_first_step_has_no_step(
    step: int, state: State, place: tuple[int | None, int | None]
) -> None:
    attempt = run_attempt({"says": [(1.0, beat(step, state=state))], "ends": (3.0, ABORT)}, {})
    assert (attempt.result.failures[0].epoch, attempt.result.failures[0].step) == place


@pytest.mark.parametrize(
    "message",
    [{}, {"beat": {"index": 0}}, {"beat": 3}, {"begun": "x"}, {"stacks": 1}, {"signal": None}, {"finished": "x"}],
)
def test_unknown_messages_are_ignored(message: dict[str, Any]) -> None:
    assert run_attempt({"says": [(1.0, message), (2.0, {"finished": 0})]}).result == RunResult(0)


def test_states_of_several_workers_are_observed_together() -> None:
    scene = stage([training(5), training(6), training(7)], script=[(1.5, AttemptEnded(stop=Stop(143, "")))])
    seen: list[list[int]] = []
    dependencies = dataclasses.replace(
        scene.dependencies(), observe=lambda states: seen.append([state.step for state in states.values()])
    )
    with scene.signals:
        GroupAttempt(assignments(3), dependencies).run()
    assert seen == [[5, 6, 7]]
