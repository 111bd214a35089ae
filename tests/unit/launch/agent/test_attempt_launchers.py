"""One attempt of several launchers: what the leader and the followers tell each other, and act upon."""

from __future__ import annotations

import signal

import pytest

from tests.unit.launch.fakes import beat, state
from tests.unit.launch.stories import ABORT, DONE, HANGS, finished, holding, tell_story, training
from tfdist.launch.agent.failures import from_signal
from tfdist.launch.peers.messages import (
    Beat,
    Begun,
    Done,
    Dump,
    Ended,
    Event,
    Hold,
    Released,
    Stacks,
    Stop,
    StopAsked,
    StopAt,
)
from tfdist.launch.run_result import Outcome


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


def test_a_stop_that_the_leader_has_not_heard_of_does_not_end_a_failed_attempt_here_alone() -> None:
    failed = Ended((from_signal(1, 9),))
    story = tell_story({}, leads=False, remote=(1,), signals_at=[(1.0, signal.SIGTERM)], script=[(1.1, failed)])
    assert story.outcome.stop is None
    assert story.outcome.failures[0].index == 1


def test_a_stop_that_all_have_heard_of_stands_when_a_worker_elsewhere_fails_over_it() -> None:
    stop = Stop(143, "SIGTERM to the launcher on b")
    script = [(1.0, Hold(stop)), (1.5, Ended((from_signal(1, 9),)))]
    story = tell_story({}, leads=False, remote=(1,), script=script)
    assert (story.outcome.code, story.outcome.stop) == (143, stop)


def test_a_worker_that_has_said_nothing_yet_gets_no_signal_to_dump_its_stacks() -> None:
    """It may not have come as far as to hear it, and would die of it."""
    script = [(1.0, Dump()), (30.0, Ended((from_signal(2, 9),)))]
    speaks = {"says": [(0.5, beat(8, limit=10.0))]}
    story = tell_story(speaks, {}, leads=False, remote=(2,), script=script)
    assert ["native dump" in worker.heard for worker in story.workers] == [True, False]


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
