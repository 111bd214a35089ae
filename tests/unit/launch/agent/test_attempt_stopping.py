"""One attempt that is asked to stop: where its workers stop, and which are not waited for."""

from __future__ import annotations

import dataclasses
import signal

import pytest

from tests.helpers.launch_fakes import assignments, stage
from tests.helpers.scripted_attempt import ABORT, HANGS, holding, run_attempt
from tfdist.launch.agent.attempt import GroupAttempt
from tfdist.launch.agent.coordinated_stop import ANSWER_SECONDS
from tfdist.launch.environment import Assignment
from tfdist.launch.peers.messages import AttemptEnded, Hold, Released, StopAt
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.process_termination import TERM_SECONDS
from tfdist.launch.worker.worker_process import Worker


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_workers_that_do_not_answer_to_hold(number: int, code: int) -> None:
    attempt = run_attempt({}, HANGS, signals_at=[(2.0, number)])
    assert attempt.result.code == code
    stop = attempt.result.stop
    assert stop is not None and signal.Signals(number).name in stop.why
    assert attempt.coordinator.told == [Hold(stop), AttemptEnded(stop=stop)]
    assert attempt.workers[0].heard == ["hold", "TERM", "close"]
    assert attempt.result.advice == "worker(s) 0, 1 did not say which step they are in"
    assert 2 + ANSWER_SECONDS < attempt.seconds < 2 + ANSWER_SECONDS + TERM_SECONDS + 1


def test_workers_stop_after_the_most_batches_that_any_has_begun() -> None:
    attempt = run_attempt(holding(41), holding(42), holding(None), signals_at=[(2.0, signal.SIGTERM)])
    assert attempt.result.code == 143
    assert attempt.result.stop is not None
    assert attempt.result.advice == ""
    for worker in attempt.workers:
        assert worker.got == [{"hold": True}, {"stop": {"after": 42, "code": 143}}, {"release": True}]
        assert "TERM" not in worker.heard
    assert attempt.seconds < 3


def test_workers_outside_of_fit_are_ended_at_once() -> None:
    attempt = run_attempt(holding(None), holding(None), signals_at=[(2.0, signal.SIGINT)])
    assert attempt.result.code == 130
    assert attempt.result.advice == "none was inside of fit"
    assert attempt.seconds < 2.0 + TERM_SECONDS + 0.5


def test_workers_that_have_not_stopped_within_the_grace_are_ended() -> None:
    slow = {"answers": {"hold": {"begun": 3}}}
    attempt = run_attempt(slow, slow, signals_at=[(2.0, signal.SIGTERM)], grace=10.0)
    assert attempt.result.code == 143
    assert attempt.result.advice == "not all had stopped within 10 s (--grace)"
    assert 12 < attempt.seconds < 12 + TERM_SECONDS + 1
    assert attempt.workers[0].heard == ["hold", "stop", "TERM", "close"]


def test_workers_that_have_stopped_wait_for_one_that_saves() -> None:
    """Longer than others may take to follow a script that exits by itself."""
    saving = {"answers": {"hold": {"begun": 3}}, "says": [(20.0, {"finished": 143})]}
    attempt = run_attempt(saving, holding(3), signals_at=[(2.0, signal.SIGTERM)])
    assert attempt.result.code == 143
    assert "TERM" not in attempt.workers[0].heard
    assert attempt.seconds > 20


def test_the_second_signal_does_not_wait_for_the_grace() -> None:
    slow = {"answers": {"hold": {"begun": 3}}, **HANGS}
    attempt = run_attempt(slow, signals_at=[(2.0, signal.SIGINT), (4.0, signal.SIGINT)])
    assert attempt.result.code == 130
    assert attempt.seconds < 4.5


def test_a_second_signal_kills_at_once() -> None:
    attempt = run_attempt(HANGS, signals_at=[(2.0, signal.SIGINT), (2.5, signal.SIGINT)])
    assert attempt.result.code == 130
    assert attempt.seconds < 3.5


def test_a_worker_that_gets_a_signal_stops_the_job() -> None:
    told = {"says": [(1.0, {"signal": int(signal.SIGTERM)})]}
    attempt = run_attempt(holding(7), holding(7, **told))
    assert attempt.result.code == 143
    assert attempt.result.stop is not None and "SIGTERM to worker 1" in attempt.result.stop.why


def test_a_worker_that_dies_of_sigterm_stops_the_job_too() -> None:
    """It cannot relay a signal before it handles signals."""
    attempt = run_attempt({}, {"ends": (1.0, -signal.SIGTERM)})
    assert attempt.result.code == 143
    assert attempt.result.stop is not None and "SIGTERM to worker 1" in attempt.result.stop.why


def test_a_signal_before_all_workers_have_started_stops_the_job() -> None:
    scene = stage([holding(None), {}], signals_at=[(0.0, signal.SIGTERM)])
    dependencies = scene.dependencies()

    def start(assignment: Assignment) -> Worker:
        scene.signals.received.append(signal.SIGTERM)
        return dependencies.start(assignment)

    with scene.signals:
        result = GroupAttempt(assignments(2), dataclasses.replace(dependencies, start=start)).run()
    assert result.code == 143
    assert [worker.heard for worker in scene.workers[0]] == [["hold", "TERM", "close"], []]
    assert scene.clock.now < ANSWER_SECONDS


def test_a_job_that_is_done_before_it_stops_succeeds() -> None:
    done = {"answers": {"hold": {"begun": None}}, "says": [(1.9, {"finished": 0})]}
    attempt = run_attempt(done, {**done, "says": [(2.1, {"finished": 0})]}, signals_at=[(2.0, signal.SIGTERM)])
    assert attempt.result == RunResult(0)


def test_a_failure_during_a_stop_is_reported() -> None:
    attempt = run_attempt(holding(3), {"ends": (2.1, ABORT)}, signals_at=[(2.0, signal.SIGTERM)])
    assert attempt.result.code == 143
    assert [failure.index for failure in attempt.result.failures] == [1]


@pytest.mark.parametrize("number", [9999, -1, 10**20])
def test_a_signal_that_there_is_not_stops_nothing(number: int) -> None:
    attempt = run_attempt({"says": [(1.0, {"signal": number}), (2.0, {"finished": 0})]})
    assert (attempt.result.code, attempt.result.stop) == (0, None)


def test_where_to_stop_means_nothing_before_a_stop_was_asked_for() -> None:
    worker = {"says": [(3.0, {"finished": 0})]}
    attempt = run_attempt(worker, leads=False, remote=(1,), script=[(2.0, StopAt(8)), (4.0, Released(0))])
    assert (attempt.result.code, attempt.result.stop) == (0, None)
    assert "stop" not in attempt.workers[0].heard
