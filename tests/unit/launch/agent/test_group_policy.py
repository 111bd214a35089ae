""""""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.launch.agent.group_policy import (
    FOLLOW_SECONDS,
    GONE_SECONDS,
    MOST_DELAY_SECONDS,
    ExitAction,
    NoRestart,
    RestartAfter,
    RestartPolicy,
    WorkerExit,
    decide_exit,
)
from tfdist.rundir.failure import Failure

WAIT, RELEASE, END = ExitAction.WAIT, ExitAction.RELEASE, ExitAction.END
NOW = 100.0
LATE = NOW - FOLLOW_SECONDS - 0.1


def working(index: int) -> WorkerExit:
    return WorkerExit(index)


def done(index: int, code: int, *, since: float = NOW, gone: bool = False) -> WorkerExit:
    return WorkerExit(index, code, gone, since=since)


@pytest.mark.parametrize(
    ("workers", "verdict", "code", "culprits"),
    [
        ([working(0)], WAIT, 0, ()),
        ([done(0, 0)], RELEASE, 0, ()),
        ([done(0, 3)], RELEASE, 3, ()),  # one worker agrees with itself
        ([done(0, 3, gone=True)], RELEASE, 3, ()),
        ([done(0, 0), working(1)], WAIT, 0, ()),
        ([done(0, 0, since=0), working(1)], WAIT, 0, ()),  # the others may work as long as they like
        ([done(0, 0), done(1, 0)], RELEASE, 0, ()),
        ([done(0, 3), done(1, 3)], RELEASE, 3, ()),
        ([done(0, 3), working(1)], WAIT, 0, ()),  # there is time left
        ([done(0, 3, since=LATE), working(1)], END, 0, (0,)),
        ([done(0, 3, since=LATE), done(1, 3)], RELEASE, 3, ()),
        ([done(0, 3), done(1, 0)], END, 0, (0,)),
        ([done(0, 3), done(1, 4), working(2)], END, 0, (0, 1)),
        ([done(0, 0, gone=True), working(1)], WAIT, 0, ()),
        ([done(0, 0, since=LATE, gone=True), working(1)], END, 0, (0,)),  # TensorFlow cannot continue without it
        ([done(0, 0, since=NOW - GONE_SECONDS, gone=True), working(1)], WAIT, 0, ()),
        # One that is gone is followed sooner than one that waits for the others.
        ([done(0, 0, since=NOW - GONE_SECONDS - 0.1, gone=True), working(1)], END, 0, (0,)),
        ([done(0, 3, since=NOW - GONE_SECONDS - 0.1), working(1)], WAIT, 0, ()),
        ([done(0, 3, since=NOW - FOLLOW_SECONDS), working(1)], WAIT, 0, ()),
        ([done(0, 0, gone=True), done(1, 0)], RELEASE, 0, ()),
        ([done(0, 0), WorkerExit(1, gone=True, failed=True)], END, 0, (1,)),
        ([WorkerExit(0, failed=True), WorkerExit(1, failed=True)], END, 0, (0, 1)),
    ],
)
def test_decide_exit(workers: list[WorkerExit], verdict: ExitAction, code: int, culprits: tuple[int, ...]) -> None:
    decision = decide_exit(workers, NOW)
    assert (decision.action, decision.code, decision.culprits) == (verdict, code, culprits)


def failure(kind: Any = "signal", *, index: int = 0, type: str = "SIGKILL", step: int | None = 5) -> Failure:
    return Failure(index, "h", 0.0, kind, "boom", type=type, step=step)


def test_no_restarts_by_default() -> None:
    assert RestartPolicy(0).judge([failure()], 5)[0] == NoRestart("")


def test_restarts_with_progress_do_not_count() -> None:
    restarts = RestartPolicy(2)
    for step in range(1, 500):
        verdict, restarts = restarts.judge([failure(step=step)], step)
        assert verdict == RestartAfter(1.0, 1)


def test_the_delay_is_bounded() -> None:
    restarts = RestartPolicy(50)
    delays = []
    for _ in range(10):
        verdict, restarts = restarts.judge([failure()], 0)
        assert isinstance(verdict, RestartAfter)
        delays.append(verdict.delay)
    assert delays[:4] == [1, 2, 4, 8]
    assert max(delays) == delays[-1] == MOST_DELAY_SECONDS


def test_the_delay_is_finite_after_any_number_of_restarts() -> None:
    assert RestartPolicy(5000, used=4000).judge([failure()], 0)[0] == RestartAfter(MOST_DELAY_SECONDS, 4001)


def test_steps_that_are_repeated_are_no_progress() -> None:
    verdict, restarts = RestartPolicy(1).judge([failure()], 100)
    assert verdict == RestartAfter(1.0, 1)
    verdict, _ = restarts.judge([failure()], 90)
    assert isinstance(verdict, NoRestart)


@pytest.mark.parametrize(("most", "times"), [(1, "once"), (2, "2 times")])
def test_the_reason_says_how_often_it_was_restarted(most: int, times: str) -> None:
    verdict, _ = RestartPolicy(most, used=most).judge([failure()], 0)
    assert verdict == NoRestart(f"it was restarted {times} without any progress (--max-restarts {most})")


@pytest.mark.parametrize(
    ("first", "second", "again"),
    [
        (failure("exception", type="ValueError"), failure("exception", type="ValueError"), False),
        (failure("exception", type="ValueError"), failure("exception", type="ValueError", step=6), True),
        (failure("exception", type="ValueError"), failure("exception", type="KeyError"), True),
        (failure("exception", type="ValueError", step=None), failure("exception", type="ValueError", step=None), False),
        (
            failure("exception", type="tfdist.errors.WorkerFailedError"),
            failure("exception", type="tfdist.errors.WorkerFailedError"),
            True,  # a connection broke, twice
        ),
        (
            failure("exception", type="tfdist.errors.StoreError", step=None),
            failure("exception", type="tfdist.errors.StoreError", step=None),
            True,  # an outage lasts
        ),
        (failure(), failure(), True),
        (failure("hang", type=""), failure("hang", type=""), True),
    ],
)
def test_a_repeated_exception(first: Failure, second: Failure, again: bool) -> None:
    _, restarts = RestartPolicy(9).judge([first], 5)
    verdict, _ = restarts.judge([second], 5)
    assert isinstance(verdict, RestartAfter) == again


@pytest.mark.parametrize("kind", ["usage", "data", "start", "lost"])
def test_failures_that_would_come_again(kind: str) -> None:
    """After another failure too: cause and consequence cannot always be told apart."""
    verdict, _ = RestartPolicy(9).judge([failure(), failure(kind, index=1)], 5)
    assert isinstance(verdict, NoRestart) and verdict.why
