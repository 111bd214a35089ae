"""How often the leader of a large job hears of workers, and looks at them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.helpers.launch_fakes import Clock, FakeCoordinator, state
from tfdist.launch.agent.exit_diagnosis import from_signal
from tfdist.launch.agent.hang_detection import HangDetector
from tfdist.launch.peers import messages
from tfdist.launch.peers.messages import (
    Beat,
    Event,
    beat_seconds,
    from_message,
    gather_seconds,
    observe_seconds,
    straggler_seconds,
    to_message,
)
from tfdist.net.line_socket import LineError
from tfdist.rundir.state_records import State

STOP = messages.Stop(143, "SIGTERM")

EVENTS: list[Event] = [
    messages.WorkerDone(1, 0, True),
    messages.Released(3),
    messages.AttemptEnded((from_signal(1, 9, last_lines=("a",)),), None, (1, 2)),
    messages.AttemptEnded(stop=STOP),
    messages.Beat(state(2, 7, limit=600.0)),
    messages.DumpStacks(),
    messages.WorkerStacks(1, "train.py line 3", "text", "data.py line 120", "/log"),
    messages.StopRequested(STOP),
    messages.Hold(STOP),
    messages.BatchesBegun(1, 7),
    messages.Posted("a part", {"worker": 1, "bytes": 7}),
    messages.BatchesBegun(1, None),
    messages.StopAt(8),
    messages.Restart(2, 4.0, "why"),
    messages.GiveUp("why"),
    messages.Stopped(messages.Stop(4, "SIGTERM", "advice")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_go_over_the_line(event: Event) -> None:
    assert from_message(json.loads(json.dumps(to_message(event)))) == event


def test_every_kind_of_event_is_tested() -> None:
    assert {type(event) for event in EVENTS} == set(Event.__args__)


def test_other_messages_are_not_events() -> None:
    assert from_message({"settle": []}) is None


@pytest.mark.parametrize(
    "message",
    [
        {"event": "Explode"},
        {"event": ["WorkerDone"]},
        {"event": "WorkerDone", "index": 1},
        {"event": "WorkerDone", "index": "x", "code": 0, "gone": False},
        {"event": "Beat", "state": {"index": 1}},
        {"event": "Released", "code": 0, "more": 1},
        {"event": "AttemptEnded", "failures": 3, "stop": None, "blamed": []},
        {"event": "Released", "code": math.inf},
        {"event": "Restart", "attempt": 1, "delay": math.nan, "why": ""},
        {"event": "Restart", "attempt": 1, "delay": math.inf, "why": ""},
        {"event": "Restart", "attempt": 1, "delay": 10**400, "why": ""},
        {"event": "Beat", "state": {**state(1, 7).to_dict(), "step": "seven"}},
        {"event": "Beat", "state": {**state(1, 7).to_dict(), "index": []}},
    ],
)
def test_an_unknown_event_is_an_error(message: dict[str, Any]) -> None:
    with pytest.raises(LineError):
        from_message(message)


@pytest.mark.parametrize(("workers", "seconds"), [(2, 0.0), (50, 0.0), (100, 2.0), (1000, 20.0), (10_000, 20.0)])
def test_the_leader_hears_of_fifty_states_a_second_or_of_each_every_twenty_seconds(
    workers: int, seconds: float
) -> None:
    assert beat_seconds(workers) == seconds


def test_in_a_small_job_nothing_waits() -> None:
    assert gather_seconds(16) == straggler_seconds(16) == 0.0 and observe_seconds(16) < 0.02


def test_in_the_largest_job_nothing_waits_for_long() -> None:
    assert gather_seconds(10**6) == 0.1 and observe_seconds(10**6) == 1.0 and straggler_seconds(10**6) == 10.0


class Follower:
    """The hang detection of a launcher of worker 500 of a thousand, and what it tells the leader."""

    def __init__(self, size: int = 1000) -> None:
        self.clock = Clock()
        self.coordinator = FakeCoordinator(self.clock, False, tuple(range(size - 1)), ())
        self.hangs = HangDetector({}, self.coordinator, self.clock)

    def tells(self, at: float, **fields: Any) -> list[tuple[State, int]]:
        """What it tells of this state of the worker."""
        self.clock.now = at
        self.coordinator.told.clear()
        self.hangs.beat(state(500, **fields).to_dict())
        return [(told.state.state, told.state.step) for told in self.coordinator.told if isinstance(told, Beat)]


def test_mere_progress_is_told_now_and_then() -> None:
    follower = Follower()
    assert follower.tells(0.0, step=1) == [(State.STEP, 1)]
    assert all(follower.tells(float(second), step=second) == [] for second in range(1, 20))
    assert follower.tells(20.0, step=21) == [(State.STEP, 21)]
    assert follower.tells(21.0, step=22) == []


@pytest.mark.parametrize(
    "change", [{"state": State.EVALUATING}, {"limit": 5.0}, {"attempt": 1}, {"pid": 7}, {"state": State.FINISHED}]
)
def test_what_the_leader_decides_by_is_told_at_once(change: dict[str, Any]) -> None:
    follower = Follower()
    follower.tells(0.0, step=1)
    assert len(follower.tells(0.1, step=1, **change)) == 1


def test_in_a_small_job_every_state_is_told() -> None:
    follower = Follower(4)
    assert all(len(follower.tells(second / 10, step=second)) == 1 for second in range(5))
