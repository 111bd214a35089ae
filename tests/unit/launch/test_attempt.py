"""One attempt with fake workers and a fake clock: every story in milliseconds."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.launch.fakes import FakeControl, FakeWorker, assignments, beat, stage, state
from tfdist.launch.asking import SECONDS as ASKING_SECONDS
from tfdist.launch.attempt import Attempt, Course
from tfdist.launch.ending import KILL_SECONDS, LEAVE_SECONDS, TERM_SECONDS
from tfdist.launch.environment import Assignment
from tfdist.launch.events import Beat, Begun, Done, Dump, Ended, Event, Hold, Released, Stacks, Stop, StopAsked, StopAt
from tfdist.launch.failures import from_signal
from tfdist.launch.outcome import Outcome
from tfdist.launch.stopping import ANSWER_SECONDS
from tfdist.launch.worker import Worker
from tfdist.rundir.state import State

ABORT = -signal.SIGABRT


@dataclasses.dataclass
class Story:
    """One attempt."""

    outcome: Outcome
    control: FakeControl
    workers: list[FakeWorker]
    seconds: float
    course: Course


def tell_story(
    *workers: dict[str, Any],
    leads: bool = True,
    remote: tuple[int, ...] = (),
    script: Sequence[tuple[float, Event]] = (),
    signals_at: Sequence[tuple[float, int]] = (),
    grace: float = 30.0,
) -> Story:
    place = stage(workers, leads=leads, remote=remote, script=script, signals_at=signals_at)
    attempt = Attempt(assignments(len(workers), len(remote)), place.surroundings(grace))
    with place.signals:
        outcome = attempt.run()
    return Story(outcome, place.control, place.workers[0], place.clock.now, attempt.course)


def finished(seconds: float, code: int) -> dict[str, Any]:
    """A worker that is done."""
    return {"says": [(seconds, {"finished": code})]}


DONE = finished(1.0, 0)
HANGS = {"obeys_term": False}


@pytest.mark.parametrize(
    ("workers", "code"),
    [
        ([DONE], 0),
        ([DONE, finished(50.0, 0)], 0),
        ([finished(1.0, 3), finished(4.0, 3)], 3),
        ([{"ends": (1.0, 3)}], 3),  # os._exit in a script: nothing was said
        ([{"ends": (1.0, 3)}, {"ends": (2.0, 3)}], 3),
    ],
)
def test_workers_that_agree_leave_together(workers: list[dict[str, object]], code: int) -> None:
    story = tell_story(*workers)
    assert story.outcome == Outcome(code)
    assert story.course is Course.OVER
    for worker in story.workers:
        assert worker.heard[-1] == "close"
        assert "TERM" not in worker.heard


@pytest.mark.parametrize(
    ("workers", "culprit", "seconds"),
    [
        ([{}, {"ends": (1.0, ABORT)}], 1, 1.0),
        ([DONE, {"ends": (3.0, ABORT)}], 1, 3.0),
        ([finished(1.0, 3), {}], 0, 6.0),  # nobody follows within 5 s
        ([{"ends": (1.0, 0)}, {}], 0, 2.5),  # it has left without waiting for anybody
        ([{**finished(1.0, 0), "ends": (2.0, 0)}, {}], 0, 3.5),
        ([finished(1.0, 0), finished(2.0, 1)], 1, 2.0),
    ],
)
def test_a_failure_ends_the_others(workers: list[dict[str, object]], culprit: int, seconds: float) -> None:
    story = tell_story(*workers)
    assert story.outcome.code == 4
    assert story.outcome.failures[0].index == culprit
    assert len(story.outcome.failures) == 1  # those that the launcher ended did not fail
    assert story.seconds < seconds + 1.5


def test_who_does_not_hear_term_is_killed_within_two_seconds() -> None:
    story = tell_story({"ends": (1.0, ABORT)}, HANGS, {})
    assert story.workers[1].heard == ["TERM", "KILL", "close"]
    assert story.workers[2].heard == ["TERM", "close"]
    assert story.seconds <= 1.0 + TERM_SECONDS + 0.5 <= 3.0
    assert KILL_SECONDS <= 2


def test_workers_that_tell_of_the_launchers_own_term_stop_nothing() -> None:
    story = tell_story({"ends": (1.0, ABORT)}, {"obeys_term": False, "relays_term": True})
    assert story.outcome.stop is None
    assert (story.outcome.code, story.outcome.failures[0].index) == (4, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_workers_that_do_not_say_where_they_could_stop(number: int, code: int) -> None:
    story = tell_story({}, HANGS, signals_at=[(2.0, number)])
    assert story.outcome.code == code
    stop = story.outcome.stop
    assert stop is not None and signal.Signals(number).name in stop.why
    assert story.control.told == [Hold(stop), Ended(stop=stop)]
    assert story.workers[0].heard == ["hold", "TERM", "close"]
    assert story.outcome.advice == "worker(s) 0, 1 did not say which step they are in"
    assert 2 + ANSWER_SECONDS < story.seconds < 2 + ANSWER_SECONDS + TERM_SECONDS + 1


def holding(begun: int | None, **fields: Any) -> dict[str, Any]:
    """A worker that answers, held, how many batches it has begun, and stops where it is told to."""
    return {"answers": {"hold": {"begun": begun}, "stop": {"finished": 143}}, **fields}


def test_workers_stop_together_after_what_the_furthest_has_begun() -> None:
    story = tell_story(holding(41), holding(42), holding(None), signals_at=[(2.0, signal.SIGTERM)])
    assert story.outcome.code == 143
    assert story.outcome.stop is not None
    assert story.outcome.advice == ""
    for worker in story.workers:
        assert worker.got == [{"hold": True}, {"stop": {"after": 42, "code": 143}}, {"release": True}]
        assert "TERM" not in worker.heard
    assert story.seconds < 3


def test_workers_that_are_in_no_fit_are_ended_at_once() -> None:
    story = tell_story(holding(None), holding(None), signals_at=[(2.0, signal.SIGINT)])
    assert story.outcome.code == 130
    assert story.outcome.advice == "none was inside of fit"
    assert story.seconds < 2.0 + TERM_SECONDS + 0.5


def test_who_has_not_stopped_within_the_grace_is_ended() -> None:
    slow = {"answers": {"hold": {"begun": 3}}}
    story = tell_story(slow, slow, signals_at=[(2.0, signal.SIGTERM)], grace=10.0)
    assert story.outcome.code == 143
    assert story.outcome.advice == "not all had stopped within 10 s (--grace)"
    assert 12 < story.seconds < 12 + TERM_SECONDS + 1
    assert story.workers[0].heard == ["hold", "stop", "TERM", "close"]


def test_who_has_stopped_waits_for_who_still_saves() -> None:
    """Longer than others may take to follow a script that exits by itself."""
    saving = {"answers": {"hold": {"begun": 3}}, "says": [(20.0, {"finished": 143})]}
    story = tell_story(saving, holding(3), signals_at=[(2.0, signal.SIGTERM)])
    assert story.outcome.code == 143
    assert "TERM" not in story.workers[0].heard
    assert story.seconds > 20


def test_the_second_signal_does_not_wait_for_the_grace() -> None:
    slow = {"answers": {"hold": {"begun": 3}}, **HANGS}
    story = tell_story(slow, signals_at=[(2.0, signal.SIGINT), (4.0, signal.SIGINT)])
    assert story.outcome.code == 130
    assert story.seconds < 4.5


def test_a_worker_that_gets_a_signal_stops_the_job() -> None:
    told = {"says": [(1.0, {"signal": int(signal.SIGTERM)})]}
    story = tell_story(holding(7), holding(7, **told))
    assert story.outcome.code == 143
    assert story.outcome.stop is not None and "SIGTERM to worker 1" in story.outcome.stop.why


def test_a_worker_that_dies_of_sigterm_stops_the_job_too() -> None:
    """Before it listens to signals it cannot tell of one."""
    story = tell_story({}, {"ends": (1.0, -signal.SIGTERM)})
    assert story.outcome.code == 143
    assert story.outcome.stop is not None and "SIGTERM to worker 1" in story.outcome.stop.why


def test_a_signal_before_all_workers_are_started_is_acted_upon_at_once() -> None:
    place = stage([holding(None), {}], signals_at=[(0.0, signal.SIGTERM)])
    around = place.surroundings()

    def start(assignment: Assignment) -> Worker:
        place.signals.received.append(signal.SIGTERM)
        return around.start(assignment)

    with place.signals:
        outcome = Attempt(assignments(2), dataclasses.replace(around, start=start)).run()
    assert outcome.code == 143
    assert [worker.heard for worker in place.workers[0]] == [["hold", "TERM", "close"], []]
    assert place.clock.now < ANSWER_SECONDS


def test_a_stop_that_the_leader_has_not_heard_of_does_not_end_a_failed_attempt_here_alone() -> None:
    failed = Ended((from_signal(1, 9),))
    story = tell_story({}, leads=False, remote=(1,), signals_at=[(1.0, signal.SIGTERM)], script=[(1.1, failed)])
    assert story.outcome.stop is None
    assert story.outcome.failures[0].index == 1


def test_a_job_that_is_done_before_it_can_stop_is_done() -> None:
    done = {"answers": {"hold": {"begun": None}}, "says": [(1.9, {"finished": 0})]}
    story = tell_story(done, {**done, "says": [(2.1, {"finished": 0})]}, signals_at=[(2.0, signal.SIGTERM)])
    assert story.outcome == Outcome(0)


def test_a_worker_that_fails_while_it_stops_is_said() -> None:
    story = tell_story(holding(3), {"ends": (2.1, ABORT)}, signals_at=[(2.0, signal.SIGTERM)])
    assert story.outcome.code == 143
    assert [failure.index for failure in story.outcome.failures] == [1]


def test_launchers_stop_their_workers_together() -> None:
    """The leader asks, and a follower passes on."""
    stop = Stop(143, "SIGTERM to the launcher on b")
    story = tell_story(
        holding(5), remote=(1,), script=[(1.0, StopAsked(stop)), (1.5, Begun(1, 6)), (2.0, Done(1, 143, False))]
    )
    assert story.control.told == [Hold(stop), StopAt(6), Released(143)]
    assert story.workers[0].got[1] == {"stop": {"after": 6, "code": 143}}
    assert story.outcome == Outcome(143, stop=stop)
    follower = tell_story(
        holding(5),
        leads=False,
        remote=(1,),
        script=[(1.0, Hold(stop)), (1.5, StopAt(6)), (2.5, Released(143))],
    )
    assert follower.control.told == [Begun(0, 5), Done(0, 143, False)]
    assert follower.outcome == Outcome(143, stop=stop)


def test_a_followers_signal_is_the_leaders_to_act_upon() -> None:
    story = tell_story(
        holding(5), leads=False, remote=(1,), signals_at=[(1.0, signal.SIGTERM)], script=[(8.0, Released(143))]
    )
    assert isinstance(story.control.told[0], StopAsked)
    assert story.outcome.code == 143


ASKED = {"dump": {"stacks": "File x", "where": "train.py line 3 in main"}}


def training(step: int, *, limit: float | None = 10.0, at: float = 1.0, **fields: Any) -> dict[str, Any]:
    """A worker that came to a step and then says nothing more, unless it is asked."""
    return {"says": [(at, beat(step, limit=limit))], "answers": ASKED, **fields}


def test_who_holds_the_others_up_is_named() -> None:
    story = tell_story(training(418), training(417), training(418))
    assert story.outcome.code == 4
    first, *others = story.outcome.failures
    assert (first.index, first.kind, first.step) == (1, "hang", 417)
    assert "has not reached step 419" in first.message and "train.py line 3" in first.message
    assert first.traceback == "File x"
    assert [failure.index for failure in others] == [0, 2]
    assert all(failure.is_consequence for failure in others)
    assert 11 < story.seconds < 11 + ASKING_SECONDS + TERM_SECONDS + 1
    assert story.outcome.step == 418


def test_nobody_hangs_while_one_gets_on() -> None:
    getting_on = {"says": [*((t, beat(5, limit=10.0, moves=t)) for t in range(1, 60, 9)), (60.0, {"finished": 0})]}
    story = tell_story({**training(5), "says": [(1.0, beat(5, limit=10.0)), (60.5, {"finished": 0})]}, getting_on)
    assert story.outcome.code == 0


def test_nobody_hangs_outside_of_fit() -> None:
    outside = {"says": [(1.0, beat(5, limit=None, state=State.STARTING)), (500.0, {"finished": 0})]}
    assert tell_story(outside, outside).outcome.code == 0


def test_the_longest_limit_counts() -> None:
    """One compiles its first step while the other waits in its second."""
    compiling = {"says": [(1.0, beat(0, limit=100.0, state=State.COMPILING))], "answers": ASKED}
    story = tell_story(training(1), compiling)
    assert 101 < story.seconds < 110
    assert story.outcome.failures[0].index == 1


def test_a_stopped_process_is_named_without_asking_it() -> None:
    story = tell_story(training(5), training(5, stopped=True, obeys_term=False))
    first = story.outcome.failures[0]
    assert first.index == 1 and "SIGSTOP" in first.message
    assert "dump" not in story.workers[1].heard


def test_a_worker_that_does_not_answer_is_dumped_by_a_signal_and_named() -> None:
    story = tell_story(training(5), training(5, answers={}))
    first = story.outcome.failures[0]
    assert first.index == 1 and "does not answer" in first.message
    assert story.workers[1].heard[:2] == ["dump", "USR2"]
    assert "USR2" not in story.workers[0].heard


def test_workers_that_move_again_while_they_are_asked_do_not_hang() -> None:
    late = {"says": [(1.0, beat(5, limit=10.0)), (12.0, beat(6, limit=10.0)), (13.0, {"finished": 0})], "answers": {}}
    assert tell_story(late).outcome == Outcome(0, step=6)


def test_a_hang_elsewhere_is_found_by_what_is_told() -> None:
    script = [(1.0, Beat(state(1, 7, limit=10.0))), (12.0, Stacks(1, "data.py line 120 in _decode", "File y"))]
    story = tell_story(training(8), remote=(1,), script=script)
    assert story.control.told[0] == Dump()
    assert story.outcome.failures[0].index == 1
    assert "data.py line 120" in story.outcome.failures[0].message


def test_a_follower_passes_on_what_its_workers_say() -> None:
    story = tell_story(
        training(8), leads=False, remote=(1,), script=[(5.0, Dump()), (30.0, Ended((from_signal(1, 9),)))]
    )
    told = story.control.told
    assert isinstance(told[0], Beat) and told[0].state.step == 8
    assert told[1] == Stacks(0, "train.py line 3 in main", "File x", log="log")


def test_what_several_workers_say_at_once_is_looked_at_once() -> None:
    place = stage([training(5), training(6), training(7)], script=[(1.5, Ended(stop=Stop(143, "")))])
    seen: list[list[int]] = []
    around = dataclasses.replace(
        place.surroundings(), observe=lambda states: seen.append([state.step for state in states.values()])
    )
    with place.signals:
        Attempt(assignments(3), around).run()
    assert seen == [[5, 6, 7]]


def test_a_failure_says_how_far_the_worker_was() -> None:
    story = tell_story({**training(12), "ends": (3.0, ABORT)}, {})
    assert (story.outcome.failures[0].step, story.outcome.failures[0].epoch) == (12, 0)


def test_a_worker_that_fails_before_it_trains_was_at_no_step() -> None:
    story = tell_story({"says": [(1.0, beat(0, state=State.STARTING))], "ends": (3.0, ABORT)}, {})
    assert (story.outcome.failures[0].step, story.outcome.failures[0].epoch) == (None, None)


@pytest.mark.parametrize(
    "message",
    [{}, {"beat": {"index": 0}}, {"beat": 3}, {"begun": "x"}, {"stacks": 1}, {"signal": None}, {"finished": "x"}],
)
def test_a_worker_that_says_something_else_is_not_understood(message: dict[str, Any]) -> None:
    assert tell_story({"says": [(1.0, message), (2.0, {"finished": 0})]}).outcome == Outcome(0)


def test_a_second_signal_does_not_wait_for_term() -> None:
    story = tell_story(HANGS, signals_at=[(2.0, signal.SIGINT), (2.5, signal.SIGINT)])
    assert story.outcome.code == 130
    assert story.seconds < 3.5


def test_a_released_worker_that_stays_is_ended_and_the_job_was_still_good() -> None:
    story = tell_story({**DONE, "leaves": False, "obeys_term": False})
    assert story.outcome == Outcome(0)
    assert story.workers[0].heard == ["release", "TERM", "KILL", "close"]
    assert LEAVE_SECONDS < story.seconds < LEAVE_SECONDS + 10


def test_a_worker_that_crashes_after_its_release_does_not_undo_the_job() -> None:
    story = tell_story({**DONE, "leaves": False, "ends": (1.5, ABORT)}, DONE)
    assert story.outcome == Outcome(0)


def test_a_worker_that_cannot_be_started_is_a_failure() -> None:
    def start(assignment: Assignment) -> Worker:
        raise OSError("no such interpreter")

    place = stage([{}])
    around = dataclasses.replace(place.surroundings(), start=start)
    with place.signals:
        outcome = Attempt(assignments(1), around).run()
    assert outcome.code == 4
    assert "no such interpreter" in outcome.failures[0].message


def test_the_leader_waits_for_remote_workers_and_releases_all() -> None:
    story = tell_story(DONE, remote=(1,), script=[(5.0, Done(1, 0, False))])
    assert story.outcome == Outcome(0)
    assert story.control.told == [Released(0)]
    assert story.seconds >= 5


@pytest.mark.parametrize("script", [[(2.0, Done(1, 3, False))], [(2.0, Done(1, 0, True))]])
def test_a_remote_worker_that_leaves_early_fails_the_job_whatever_its_launcher_says(
    script: list[tuple[float, Event]],
) -> None:
    story = tell_story({} if script[0][1].gone else DONE, remote=(1,), script=script)  # type: ignore[union-attr]
    assert story.outcome.code == 4
    assert [failure.index for failure in story.outcome.failures] == [1]


def test_a_follower_tells_and_waits_for_the_release() -> None:
    story = tell_story(DONE, leads=False, remote=(1,), script=[(5.0, Released(0))])
    assert story.outcome == Outcome(0)
    assert story.control.told == [Done(0, 0, False)]
    assert story.seconds >= 5


def test_a_follower_does_not_judge_an_early_leaver_by_itself() -> None:
    blame = Ended(blamed=(0,))
    story = tell_story(finished(1.0, 3), leads=False, remote=(1,), script=[(20.0, blame)])
    assert story.seconds >= 20
    assert story.outcome.failures[0].index == 0
    assert story.outcome.failures[0].kind == "exit"


def test_a_followers_failure_is_told_at_once() -> None:
    story = tell_story({"ends": (1.0, ABORT)}, HANGS, leads=False, remote=(2,))
    assert isinstance(story.control.told[0], Ended)
    assert story.control.told[0].failures[0].index == 0
    assert story.outcome.code == 4


def test_a_failure_elsewhere_ends_the_workers_here() -> None:
    elsewhere = from_signal(1, 6)
    story = tell_story({}, leads=False, remote=(1,), script=[(1.0, Ended((elsewhere,)))])
    assert story.outcome == Outcome(4, (elsewhere,))
    assert story.workers[0].heard == ["TERM", "close"]


def test_a_stop_elsewhere_stops_the_workers_here() -> None:
    stop = Stop(130, "Ctrl-C on host b")
    story = tell_story({}, remote=(1,), script=[(1.0, Ended(stop=stop))])
    assert story.outcome == Outcome(130, stop=stop)
