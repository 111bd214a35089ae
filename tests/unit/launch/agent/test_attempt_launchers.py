"""One attempt of several launchers: what the leader and the followers send one another, and how they react."""

from __future__ import annotations

import signal

import pytest

from tests.helpers.launch_fakes import beat, state
from tests.helpers.scripted_attempt import ABORT, DONE, HANGS, finished, holding, run_attempt, training
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.peers.messages import (
    AttemptEnded,
    BatchesBegun,
    Beat,
    DumpStacks,
    Event,
    Hold,
    Posted,
    Released,
    Stop,
    StopAt,
    StopRequested,
    WorkerDone,
    WorkerStacks,
)
from tfdist.launch.run_result import RunResult


def test_the_leader_waits_for_remote_workers_and_releases_all() -> None:
    attempt = run_attempt(DONE, remote=(1,), script=[(5.0, WorkerDone(1, 0, False))])
    assert attempt.result == RunResult(0)
    assert attempt.coordinator.told == [Released(0)]
    assert attempt.seconds >= 5


@pytest.mark.parametrize("script", [[(2.0, WorkerDone(1, 3, False))], [(2.0, WorkerDone(1, 0, True))]])
def test_a_remote_worker_that_leaves_early_fails_the_job(
    script: list[tuple[float, Event]],
) -> None:
    attempt = run_attempt({} if script[0][1].gone else DONE, remote=(1,), script=script)  # type: ignore[union-attr]
    assert attempt.result.code == 4
    assert [failure.index for failure in attempt.result.failures] == [1]


def test_a_follower_waits_for_the_release() -> None:
    attempt = run_attempt(DONE, leads=False, remote=(1,), script=[(5.0, Released(0))])
    assert attempt.result == RunResult(0)
    assert attempt.coordinator.told == [WorkerDone(0, 0, False)]
    assert attempt.seconds >= 5


def test_a_follower_does_not_judge_a_worker_that_left_early() -> None:
    blame = AttemptEnded(blamed=(0,))
    attempt = run_attempt(finished(1.0, 3), leads=False, remote=(1,), script=[(20.0, blame)])
    assert attempt.seconds >= 20
    (failure,) = attempt.result.failures
    assert (failure.index, failure.kind) == (0, "exit")
    assert (failure.pid, failure.log) == (1, "log"), "its own launcher knows its process"


def test_a_followers_failure_is_sent_at_once() -> None:
    attempt = run_attempt({"ends": (1.0, ABORT)}, HANGS, leads=False, remote=(2,))
    assert isinstance(attempt.coordinator.told[0], AttemptEnded)
    assert attempt.coordinator.told[0].failures[0].index == 0
    assert attempt.result.code == 4


def test_a_failure_on_another_launcher_ends_the_workers() -> None:
    elsewhere = from_signal(1, 11)
    attempt = run_attempt({}, leads=False, remote=(1,), script=[(1.0, AttemptEnded((elsewhere,)))])
    assert attempt.result == RunResult(4, (elsewhere,))
    assert attempt.workers[0].heard == ["TERM", "close"]


def test_a_stop_on_another_launcher_stops_the_workers() -> None:
    stop = Stop(130, "Ctrl-C on host b")
    attempt = run_attempt({}, remote=(1,), script=[(1.0, AttemptEnded(stop=stop))])
    assert attempt.result == RunResult(130, stop=stop)


def test_launchers_stop_their_workers_together() -> None:
    """The leader sends the requests, and a follower forwards them."""
    stop = Stop(143, "SIGTERM to the launcher on b")
    attempt = run_attempt(
        holding(5),
        remote=(1,),
        # The second answer comes when all have been told where to stop.
        script=[
            (1.0, StopRequested(stop)),
            (1.5, BatchesBegun(1, 6)),
            (1.8, BatchesBegun(1, 7)),
            (2.0, WorkerDone(1, 143, False)),
        ],
    )
    assert attempt.coordinator.told == [Hold(stop), StopAt(6), Released(143)]
    assert attempt.workers[0].got[1] == {"stop": {"after": 6, "code": 143}}
    assert attempt.result == RunResult(143, stop=stop)
    follower = run_attempt(
        holding(5),
        leads=False,
        remote=(1,),
        script=[(1.0, Hold(stop)), (1.5, StopAt(6)), (2.5, Released(143))],
    )
    assert follower.coordinator.told == [BatchesBegun(0, 5), WorkerDone(0, 143, False)]
    assert follower.result == RunResult(143, stop=stop)


def test_what_a_worker_posts_comes_to_the_chief() -> None:
    letter = {"subject": "a part", "content": {"worker": 1, "bytes": 7}}
    posts = {"says": [(1.0, {"post": letter}), (2.0, {"post": ["none"]}), (9.0, {"finished": 0})]}
    posted = Posted("a part", {"worker": 1, "bytes": 7})
    chief = {"says": [(9.0, {"finished": 0})]}
    here = run_attempt(chief, posts)
    assert here.workers[0].got[0] == {"post": letter} and {"post": letter} not in here.workers[1].got
    leader = run_attempt(chief, remote=(1,), script=[(1.0, posted), (5.0, WorkerDone(1, 0, False))])
    assert leader.workers[0].got[0] == {"post": letter}
    follower = run_attempt(posts, leads=False, remote=(1,), script=[(20.0, Released(0))])
    assert follower.coordinator.told[0] == posted
    assert {"post": letter} not in follower.workers[0].got


def test_a_followers_signal_is_sent_to_the_leader() -> None:
    attempt = run_attempt(
        holding(5), leads=False, remote=(1,), signals_at=[(1.0, signal.SIGTERM)], script=[(8.0, Released(143))]
    )
    assert isinstance(attempt.coordinator.told[0], StopRequested)
    assert attempt.result.code == 143


def test_a_stop_that_was_not_agreed_on_is_dropped_after_a_failure() -> None:
    failed = AttemptEnded((from_signal(1, 9),))
    attempt = run_attempt({}, leads=False, remote=(1,), signals_at=[(1.0, signal.SIGTERM)], script=[(1.1, failed)])
    assert attempt.result.stop is None
    assert attempt.result.failures[0].index == 1


def test_a_stop_that_was_agreed_on_stands_after_a_failure() -> None:
    stop = Stop(143, "SIGTERM to the launcher on b")
    script = [(1.0, Hold(stop)), (1.5, AttemptEnded((from_signal(1, 9),)))]
    attempt = run_attempt({}, leads=False, remote=(1,), script=script)
    assert (attempt.result.code, attempt.result.stop) == (143, stop)


def test_a_worker_without_a_heartbeat_gets_no_signal_to_dump_its_stacks() -> None:
    """It may not handle the signal yet, and would die of it."""
    script = [(1.0, DumpStacks()), (30.0, AttemptEnded((from_signal(2, 9),)))]
    speaks = {"says": [(0.5, beat(8, limit=10.0))]}
    attempt = run_attempt(speaks, {}, leads=False, remote=(2,), script=script)
    assert [worker.heard.count("native dump") for worker in attempt.workers] == [1, 0]


def test_a_hang_of_remote_workers_is_detected() -> None:
    script = [(1.0, Beat(state(1, 7, limit=10.0))), (12.0, WorkerStacks(1, "data.py line 120 in _decode", "File y"))]
    attempt = run_attempt(training(8), remote=(1,), script=script)
    assert attempt.coordinator.told[0] == DumpStacks()
    assert attempt.result.failures[0].index == 1
    assert "data.py line 120" in attempt.result.failures[0].message


def test_a_follower_forwards_the_messages_of_its_workers() -> None:
    attempt = run_attempt(
        training(8), leads=False, remote=(1,), script=[(5.0, DumpStacks()), (30.0, AttemptEnded((from_signal(1, 9),)))]
    )
    told = attempt.coordinator.told
    assert isinstance(told[0], Beat) and told[0].state.step == 8
    assert told[1] == WorkerStacks(0, "train.py line 3 in main", "File x", log="log")
