"""One attempt whose workers make no progress: which of them are blamed, and when none hangs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.helpers.launch_fakes import beat
from tests.helpers.scripted_attempt import ASKED, run_attempt, training
from tfdist.launch.agent.hang_detection import ANSWER_SECONDS, ENDED_SECONDS, STALL_SECONDS
from tfdist.launch.peers.messages import AttemptEnded
from tfdist.launch.peers.root_cause import is_consequence
from tfdist.launch.run_result import RunResult
from tfdist.launch.worker.process_termination import TERM_SECONDS
from tfdist.launch.worker.worker_process import STOPPED
from tfdist.rundir.failure import Failure
from tfdist.rundir.state_records import State


def test_the_worker_that_holds_the_others_up_is_named() -> None:
    attempt = run_attempt(training(418), training(417), training(418))
    assert attempt.result.code == 4
    first, *others = attempt.result.failures
    assert (first.index, first.kind, first.step) == (1, "hang", 417)
    assert "has not reached step 419" in first.message and "train.py line 3" in first.message
    assert first.traceback == "File x"
    assert [failure.index for failure in others] == [0, 2]
    assert all(is_consequence(failure) for failure in others)
    assert 11 < attempt.seconds < 11 + ANSWER_SECONDS + TERM_SECONDS + 1
    assert attempt.result.step == 418


def test_no_worker_hangs_while_one_makes_progress() -> None:
    getting_on = {"says": [*((t, beat(5, limit=10.0, moves=t)) for t in range(1, 60, 9)), (60.0, {"finished": 0})]}
    attempt = run_attempt({**training(5), "says": [(1.0, beat(5, limit=10.0)), (60.5, {"finished": 0})]}, getting_on)
    assert attempt.result.code == 0


def test_no_worker_hangs_outside_of_fit() -> None:
    outside = {"says": [(1.0, beat(5, limit=None, state=State.STARTING)), (500.0, {"finished": 0})]}
    assert run_attempt(outside, outside).result.code == 0


IN_FIT = {"state": State.COMPILING, "call": "fit", "limit": 1800.0}


@pytest.mark.parametrize(
    "waiting",
    [
        {**IN_FIT, "calls": 3},
        {"state": State.EXCHANGING, "call": "", "calls": 2, "limit": 600.0},
        {"state": State.STEP, "call": "fit", "calls": 2, "begun": 6, "limit": 600.0},
    ],
)
def test_a_worker_that_waits_for_one_whose_script_has_ended_is_named_at_once(waiting: dict[str, Any]) -> None:
    ended = {"says": [(1.0, beat(5, state=State.FINISHED, begun=5, calls=2)), (1.1, {"finished": 0})]}
    attempt = run_attempt({"says": [(2.0, beat(5, **waiting))], "answers": ASKED}, ended)
    (failure,) = attempt.result.failures
    assert (failure.index, failure.kind, failure.step, attempt.result.code) == (0, "hang", 5, 4)
    what = waiting["call"] or "a collective"
    assert f"waits in {what}, at train.py line 3 in main, for worker 1, whose script has ended" in failure.message
    assert attempt.seconds < 2 + ENDED_SECONDS + TERM_SECONDS + 1


def test_a_worker_with_more_to_do_for_itself_may_go_on_when_another_script_has_ended() -> None:
    ended = {"says": [(1.0, beat(5, state=State.FINISHED, begun=5, calls=2)), (1.1, {"finished": 0})]}
    last = beat(5, state=State.CALLBACK, call="fit", begun=5, calls=2, limit=600.0)
    assert run_attempt({"says": [(2.0, last), (60.0, {"finished": 0})], "answers": ASKED}, ended).result.code == 0


def test_the_longest_limit_counts() -> None:
    """One compiles its first step while the other waits in its second."""
    compiling = {"says": [(1.0, beat(0, limit=100.0, state=State.COMPILING))], "answers": ASKED}
    attempt = run_attempt(training(1), compiling)
    assert 101 < attempt.seconds < 110
    assert attempt.result.failures[0].index == 1


def test_a_stopped_process_is_named_without_a_request() -> None:
    attempt = run_attempt(training(5), training(5, stopped=True, obeys_term=False))
    first = attempt.result.failures[0]
    assert first.index == 1 and "SIGSTOP" in first.message
    assert "dump" not in attempt.workers[1].heard


def test_a_worker_that_does_not_answer_gets_a_signal_and_is_named() -> None:
    attempt = run_attempt(training(5), training(5, answers={}))
    first = attempt.result.failures[0]
    assert first.index == 1 and "does not answer" in first.message
    assert attempt.workers[1].heard[:2] == ["dump", "native dump"]
    assert "native dump" not in attempt.workers[0].heard


def test_workers_that_make_progress_during_the_request_do_not_hang() -> None:
    late = {"says": [(1.0, beat(5, limit=10.0)), (12.0, beat(6, limit=10.0)), (13.0, {"finished": 0})], "answers": {}}
    assert run_attempt(late).result == RunResult(0, step=6)


BROKEN = Failure(0, "h", 5.0, "exception", "This worker waited for the others", type="tfdist.errors.WorkerFailedError")


def broken_off(**fields: Any) -> dict[str, Any]:
    """A worker whose collective breaks off: another one does not answer TensorFlow any more."""
    return {**training(5), "says": [(1.0, beat(5, limit=600.0))], "ends": (5.0, 1), "told": BROKEN.to_dict(), **fields}


def waiting(**fields: Any) -> dict[str, Any]:
    return training(5, limit=600.0, **fields)


def test_a_stopped_process_is_the_cause_of_a_broken_collective() -> None:
    attempt = run_attempt(broken_off(), waiting(stopped=True, obeys_term=False))
    first, second = attempt.result.failures
    assert (first.index, first.kind, first.step) == (1, "hang", 5)
    assert STOPPED in first.message and "in step 6" in first.message
    assert second.index == 0 and is_consequence(second)


def test_a_process_without_a_processor_is_the_cause_of_a_broken_collective() -> None:
    attempt = run_attempt(broken_off(), waiting(answers={}, threads="SR"))
    assert attempt.result.failures[0].index == 1
    assert "gets no processor" in attempt.result.failures[0].message
    assert attempt.seconds < 5 + STALL_SECONDS + TERM_SECONDS + 1


def test_a_worker_that_answers_is_not_blamed_for_a_broken_collective() -> None:
    attempt = run_attempt(broken_off(), waiting())
    assert [failure.index for failure in attempt.result.failures] == [0]
    assert attempt.seconds < 5 + TERM_SECONDS + 1


@pytest.mark.parametrize("fields", [{"answers": {}, "busy": True}, {"says": [], "answers": {}, "threads": "SR"}])
def test_one_in_native_code_or_that_is_starting_is_not_blamed_for_a_broken_collective(fields: dict[str, Any]) -> None:
    attempt = run_attempt(broken_off(), {**waiting(), **fields})
    assert [failure.index for failure in attempt.result.failures] == [0]


def test_a_cause_that_shows_meanwhile_ends_the_search() -> None:
    attempt = run_attempt(broken_off(), waiting(answers={}, ends=(5.3, -9)))
    first, second = attempt.result.failures
    assert (first.index, first.kind, second.index) == (1, "signal", 0)
    assert attempt.seconds < 5 + STALL_SECONDS


def test_a_worker_that_fails_by_itself_is_the_cause() -> None:
    error = dataclasses.replace(BROKEN, type="ValueError")
    attempt = run_attempt(broken_off(told=error.to_dict()), waiting(stopped=True, obeys_term=False))
    assert [failure.index for failure in attempt.result.failures] == [0]


def test_another_launcher_looks_for_stopped_workers_of_its_own() -> None:
    ended = AttemptEnded((BROKEN,))
    attempt = run_attempt(waiting(stopped=True, obeys_term=False), leads=False, remote=(1,), script=[(5.0, ended)])
    assert [failure.kind for failure in attempt.result.failures] == ["hang"]
