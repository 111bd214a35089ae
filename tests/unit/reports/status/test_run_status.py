from __future__ import annotations

from typing import Any

import pytest

from tests.unit.reports.status.moments import FAILURE, NOW, status, worker
from tfdist.reports.status.run_status import SILENT_SECONDS, RunCondition
from tfdist.rundir import State
from tfdist.rundir.process_presence import Presence
from tfdist.rundir.state_records import JobState

GONE, ELSEWHERE, ALIVE, STOPPED = Presence.GONE, Presence.ELSEWHERE, Presence.ALIVE, Presence.STOPPED
FINISHED = (worker(0, state=State.FINISHED), worker(1, state=State.FINISHED))
FAILED = (worker(0, state=State.FAILED), worker(1, state=State.FAILED))
OLD = SILENT_SECONDS + 1


def test_who_stopped_a_run_is_said() -> None:
    found = status(worker(0, state=State.STOPPED), phase="failed", launcher=GONE, stopped_by="Ctrl-C, SIGINT to h0")
    assert (found.condition, found.reason) == (RunCondition.STOPPED, "Ctrl-C, SIGINT to h0")


@pytest.mark.parametrize(
    ("workers", "options", "condition"),
    [
        ((worker(0), worker(1)), {}, RunCondition.RUNNING),
        ((worker(0, state=State.STARTING, step=0), worker(1, state=State.STARTING, step=0)), {}, RunCondition.STARTING),
        ((worker(0, state=State.STARTING, step=0), worker(1, state=State.COMPILING, step=0)), {}, RunCondition.RUNNING),
        ((), {}, RunCondition.STARTING),
        (FINISHED, {"phase": "done", "launcher": GONE}, RunCondition.DONE),
        (FAILED, {"phase": "failed", "failure": FAILURE, "launcher": GONE}, RunCondition.FAILED),
        (FAILED, {"phase": "failed", "launcher": GONE}, RunCondition.STOPPED),
        # Its failure may be on its way to the disk, unless the launcher has left.
        (FAILED, {"job": JobState("failed", 0, "h0", 99, NOW - 0.5)}, RunCondition.STOPPING),
        (FAILED, {"job": JobState("failed", 0, "h0", 99, NOW - 0.5), "launcher": GONE}, RunCondition.STOPPED),
        (FAILED, {"phase": "restarting"}, RunCondition.RESTARTING),
        ((worker(0), worker(1, state=State.FINISHED)), {"phase": "stopping"}, RunCondition.STOPPING),
        # A failure of an earlier run in the same directory says nothing while this one goes on.
        ((worker(0), worker(1)), {"failure": FAILURE}, RunCondition.RUNNING),
        # A worker that has been killed a moment ago: its launcher will say so.
        ((worker(0), worker(1)), {"presences": {0: ALIVE, 1: GONE}}, RunCondition.RUNNING),
        ((worker(0), worker(1)), {"presences": GONE}, RunCondition.RUNNING),
        ((worker(0), worker(1)), {"presences": GONE, "launcher": GONE}, RunCondition.DEAD),
        ((worker(0), worker(1)), {"launcher": GONE}, RunCondition.DEAD),  # and the workers end by themselves
        (FAILED, {"phase": "restarting", "launcher": GONE}, RunCondition.DEAD),
        # On a machine that cannot look for the processes, their news count.
        ((worker(0), worker(1)), {"presences": ELSEWHERE, "launcher": ELSEWHERE}, RunCondition.RUNNING),
        ((worker(0, ago=OLD), worker(1)), {"presences": ELSEWHERE, "launcher": ELSEWHERE}, RunCondition.RUNNING),
        ((worker(0, ago=OLD), worker(1, ago=OLD)), {"presences": ELSEWHERE, "launcher": ELSEWHERE}, RunCondition.DEAD),
        ((worker(0, ago=OLD), worker(1, ago=OLD)), {"presences": {0: GONE}, "launcher": ELSEWHERE}, RunCondition.DEAD),
        (
            (worker(0, ago=OLD), worker(1, ago=OLD)),
            {"presences": {0: ALIVE}, "launcher": ELSEWHERE},
            RunCondition.RUNNING,
        ),
        ((worker(0, moved=601), worker(1, moved=700)), {}, RunCondition.HANGING),
        ((worker(0, moved=601), worker(1, moved=700)), {"presences": STOPPED}, RunCondition.HANGING),
        ((worker(0, moved=601), worker(1, moved=5)), {}, RunCondition.RUNNING),
        ((worker(0, moved=601), worker(1, moved=700, limit=1800.0)), {}, RunCondition.RUNNING),
        ((worker(0, moved=601, limit=None), worker(1, moved=700, limit=None)), {}, RunCondition.RUNNING),
        # Without a launcher's word: a host without the chief, or a directory of an earlier version.
        (FINISHED, {"phase": None, "launcher": None}, RunCondition.DONE),
        (FAILED, {"phase": None, "launcher": None, "failure": FAILURE}, RunCondition.FAILED),
        (FAILED, {"phase": None, "launcher": None}, RunCondition.STOPPED),
        ((worker(0, state=State.STOPPED),), {"phase": None, "launcher": None}, RunCondition.STOPPED),
        ((worker(0, state=State.STOPPED),), {"phase": "failed", "launcher": GONE}, RunCondition.STOPPED),
        ((worker(0), worker(1)), {"phase": None, "launcher": None}, RunCondition.RUNNING),
        ((worker(0), worker(1)), {"phase": None, "launcher": None, "presences": GONE}, RunCondition.DEAD),
    ],
)
def test_the_condition_of_a_run(workers: tuple[Any, ...], options: dict[str, Any], condition: RunCondition) -> None:
    found = status(*workers, **options)
    assert found.condition is condition
    assert bool(found.reason) == (condition in (RunCondition.DEAD, RunCondition.HANGING, RunCondition.STOPPED))


def test_why_it_seems_dead() -> None:
    assert status(worker(0), launcher=GONE).reason.startswith("its launcher (pid 99 on h0) is gone")
    here = status(worker(0), presences=GONE, launcher=None, phase=None)
    assert here.reason == "none of its processes exists any more; the newest state is 1 s old"
    elsewhere = status(worker(0, ago=99), worker(1, ago=80), presences=ELSEWHERE, launcher=ELSEWHERE)
    told = "no worker's state is newer than 80 s; only h0, h1 can tell whether its processes are alive"
    assert elsewhere.reason == told


def test_the_failure_that_is_shown() -> None:
    assert status(*FAILED, phase="failed", failure=FAILURE).failure == FAILURE
    assert status(worker(0, attempt=1), attempt=1, earlier={0: FAILURE}).failure == FAILURE
    assert status(*FAILED, phase="restarting", earlier={0: FAILURE}).failure == FAILURE
    assert status(worker(0)).failure is None
    assert status(*FINISHED, phase="done").failure is None


@pytest.mark.parametrize(
    ("workers", "presences", "order"),
    [
        ([worker(0, busy=0.1), worker(1, busy=0.3), worker(2, busy=0.2)], ALIVE, [1, 2, 0]),
        ([worker(0, busy=0.1), worker(1, busy=0.1)], ALIVE, [0, 1]),
        # Of those who stand still, the one who never arrived.
        ([worker(0, moved=90, busy=9), worker(1, moved=95, step=417), worker(2, moved=80)], ALIVE, [1, 0, 2]),
        ([worker(0, busy=0.3), worker(1, moved=90)], ALIVE, [1, 0]),
        ([worker(0, moved=90), worker(1)], {0: ALIVE, 1: GONE}, [1, 0]),
        ([worker(0, moved=90), worker(1, moved=90)], {0: ALIVE, 1: STOPPED}, [1, 0]),
        ([worker(0, state=State.FINISHED), worker(1)], ALIVE, [1, 0]),
        ([worker(0), worker(1, state=State.FAILED)], ALIVE, [1, 0]),
    ],
)
def test_the_slowest_comes_first(workers: list[Any], presences: Any, order: list[int]) -> None:
    assert [row.state.index for row in status(*workers, presences=presences).rows] == order


@pytest.mark.parametrize(
    ("changed", "presence", "remarks"),
    [
        ({}, ALIVE, []),
        ({}, GONE, ["its process is gone"]),
        ({"state": State.FINISHED}, GONE, []),
        ({"state": State.FAILED, "ago": 99}, ELSEWHERE, []),
        ({"state": State.STOPPED, "ago": 99}, GONE, []),
        ({}, STOPPED, ["its process is stopped (SIGSTOP or Ctrl-Z)"]),
        ({"ago": 99}, ALIVE, []),
        ({"ago": 99}, ELSEWHERE, ["no news for 99 s"]),
        ({"moved": 601}, ALIVE, ["no progress for longer than 600 s"]),
    ],
)
def test_remarks(changed: dict[str, Any], presence: Presence, remarks: list[str]) -> None:
    found = status(worker(0, **changed), worker(1), presences={0: presence, 1: ALIVE}, launcher=ELSEWHERE)
    assert {row.state.index: list(row.remarks) for row in found.rows} == {0: remarks, 1: []}


def test_under_a_live_launcher_states_need_not_be_fresh() -> None:
    slow, _ = status(worker(0, ago=99), worker(1), presences=ELSEWHERE, launcher=ALIVE).rows
    assert (slow.state.index, slow.remarks) == (0, ())


def test_a_run_that_is_over_has_no_remarks() -> None:
    """The last news of other machines' workers may be older than their end."""
    rows = status(worker(0, ago=999), worker(1), presences=GONE, phase="done", launcher=GONE).rows
    assert [row.remarks for row in rows] == [(), ()]


def test_a_worker_of_the_attempt_before() -> None:
    slow, other = status(worker(0, attempt=1), worker(1, attempt=0, busy=0.9), attempt=1).rows
    assert (slow.state.index, slow.remarks, slow.lag) == (1, ("of attempt 0",), None)
    assert other.lag is None


def test_stragglers_are_marked() -> None:
    slow, *others = status(worker(0), worker(1, busy=0.15), worker(2)).rows
    assert slow.state.index == 1 and slow.is_straggling
    assert slow.remarks == ("straggler: 50 % slower, costs 50 ms a step",)
    assert not any(row.is_straggling or row.remarks for row in others)
    # While the first steps are taken, the times are those of compiling.
    assert not any(row.is_straggling for row in status(worker(0, step=49), worker(1, busy=0.15, step=49)).rows)


@pytest.mark.parametrize(
    ("busy", "step_seconds", "step", "is_straggling"),
    [
        (0.15, 0.0, 418, True),  # of a version that does not say what a step takes in all
        (0.15, 0.9, 418, True),
        (0.15, 1.1, 418, False),  # less than 5 % of the time
        (0.15, 0.15, 59, True),
        (0.0015, 0.002, 418, False),  # less than a second in all
        (0.0015, 0.002, 4180, True),
    ],
)
def test_only_stragglers_that_cost_are_marked(busy: float, step_seconds: float, step: int, is_straggling: bool) -> None:
    slow = worker(1, busy=busy, step_seconds=step_seconds, step=step)
    slowest, *_ = status(worker(0, busy=busy / 1.5), slow, worker(2, busy=busy / 1.5)).rows
    assert (slowest.state.index, slowest.is_straggling, bool(slowest.remarks)) == (1, is_straggling, is_straggling)


def test_how_long_ago() -> None:
    (row,) = status(worker(0, ago=2.0, moved=30.0)).rows
    assert (row.silent, row.quiet) == (2.0, 30.0)
    (starting,) = status(worker(0, ago=2.0, moved=NOW)).rows  # it never moved: 0 in its state
    assert starting.quiet == 2.0
    (ahead,) = status(worker(0, ago=-3.0)).rows  # a clock that is ahead of this one's
    assert (ahead.silent, ahead.quiet) == (0.0, 0.0)
