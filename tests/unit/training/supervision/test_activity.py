from __future__ import annotations

import pytest

from tfdist.rundir import State
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.training.supervision.activity import SHORT_SECONDS, Activity, Limits

FIRST, STEP = 100.0, 10.0
CHECKPOINT = TimeKind.CHECKPOINT


@pytest.fixture
def activity() -> Activity:
    return Activity(Limits(FIRST, STEP), now=0.0)


def step(activity: Activity, now: float, trained: int = 1) -> None:
    activity.begin_batches(now)
    activity.end_batches(trained=trained, now=now)


def seen(activity: Activity, now: float) -> tuple[State, float | None]:
    return activity.state(now), activity.limit()


def test_a_fit(activity: Activity) -> None:
    assert seen(activity, 0) == (State.STARTING, None)
    activity.begin_call("fit", now=1)
    assert seen(activity, 1) == (State.COMPILING, FIRST)
    activity.begin_batches(50)
    assert seen(activity, 50) == (State.COMPILING, FIRST)
    activity.end_batches(trained=3, now=51)
    assert seen(activity, 51) == (State.STEP, STEP)
    activity.begin_batches(60)
    assert seen(activity, 60) == (State.STEP, STEP)
    activity.end_call(61)
    assert seen(activity, 61) == (State.STARTING, None)
    assert activity.step == 3


def test_calls_are_counted_without_those_inside_of_them(activity: Activity) -> None:
    for call in ("fit", "predict"):
        activity.begin_call(call, now=1)
        activity.begin_call("evaluate", now=2)
        assert activity.call == call
        activity.end_call(3)
        activity.end_call(4)
    assert (activity.calls, activity.call) == (2, "")


def test_a_cluster_that_forms(activity: Activity) -> None:
    activity.begin_forming(1)
    assert (seen(activity, 1), activity.moves) == ((State.STARTING, FIRST), 1)
    activity.end_forming(2)
    assert (seen(activity, 2), activity.moves) == ((State.STARTING, None), 2)


def test_a_collective_that_the_script_calls(activity: Activity) -> None:
    """In whatever thread, and inside of a function, of which only counts are seen."""
    for begin, end in (
        (lambda: activity.begin_exchange(1), lambda: activity.end_exchange(2)),
        (lambda: activity.see_traced(5, 4, 1), lambda: activity.see_traced(5, 5, 2)),
    ):
        moves = activity.moves
        begin()
        assert seen(activity, 1) == (State.EXCHANGING, STEP)
        end()
        assert (seen(activity, 2), activity.moves) == ((State.STARTING, None), moves + 2)
    activity.see_traced(5, 5, 3)
    assert activity.moved == 2
    activity.begin_exchange(3)
    activity.begin_exchange(3)
    activity.end_exchange(4)
    assert activity.state(4) is State.EXCHANGING
    activity.begin_call("fit", now=5)
    assert seen(activity, 5) == (State.COMPILING, FIRST)


def test_what_takes_long_between_batches_is_a_callback(activity: Activity) -> None:
    activity.begin_call("fit", now=0)
    step(activity, now=1)
    assert activity.state(1 + SHORT_SECONDS / 2) is State.STEP
    assert activity.state(1 + 2 * SHORT_SECONDS) is State.CALLBACK
    activity.begin_batches(1 + 2 * SHORT_SECONDS)
    assert activity.state(1 + 2 * SHORT_SECONDS) is State.STEP


def test_the_first_evaluation_of_a_fit_compiles_and_no_other(activity: Activity) -> None:
    activity.begin_call("fit", now=0)
    step(activity, now=1)
    activity.begin_call("evaluate", now=2)
    assert seen(activity, 2) == (State.COMPILING, FIRST)
    step(activity, now=3, trained=0)
    assert seen(activity, 3) == (State.EVALUATING, STEP)
    activity.end_call(4)
    assert seen(activity, 4) == (State.STEP, STEP)
    activity.begin_call("evaluate", now=5)
    assert seen(activity, 5) == (State.EVALUATING, STEP)
    assert activity.step == 1


def test_an_evaluation_by_itself(activity: Activity) -> None:
    for _ in range(2):
        activity.begin_call("evaluate", now=0)
        assert seen(activity, 0) == (State.COMPILING, FIRST)
        step(activity, now=1, trained=0)
        assert seen(activity, 1) == (State.EVALUATING, STEP)
        activity.end_call(2)


def test_saving_may_be_inside_of_saving_and_keeps_the_limit(activity: Activity) -> None:
    activity.begin_part(CHECKPOINT, 0)
    assert seen(activity, 0) == (State.SAVING, None)
    activity.end_part(1)
    activity.begin_call("fit", now=1)
    step(activity, now=2)
    activity.begin_part(CHECKPOINT, 3)
    activity.begin_part(CHECKPOINT, 3)
    activity.end_part(4)
    assert seen(activity, 4) == (State.SAVING, STEP)
    activity.end_part(5)
    assert seen(activity, 5) == (State.STEP, STEP)


def test_the_save_at_the_end_of_a_run_has_the_limit_of_a_step(activity: Activity) -> None:
    """Its disk may never answer."""
    activity.enter(State.SAVING, 5.0)
    assert seen(activity, 6.0) == (State.SAVING, STEP)
    activity.enter(State.FINISHED, 7.0)
    assert seen(activity, 8.0) == (State.FINISHED, None)


def test_batches_outside_of_any_call_are_steps_without_a_limit(activity: Activity) -> None:
    step(activity, now=1)
    assert seen(activity, 9) == (State.STEP, None)
    activity.enter(State.FINISHED, 10)
    assert seen(activity, 10) == (State.FINISHED, None)
    assert activity.step == 1


def test_every_event_is_a_move(activity: Activity) -> None:
    activity.begin_call("fit", now=1)
    step(activity, now=2)
    activity.begin_part(CHECKPOINT, 3)
    activity.end_part(4)
    activity.move(5)
    activity.end_call(6)
    activity.enter(State.FINISHED, 7)
    assert (activity.moves, activity.moved) == (7, 7)
