"""How often the leader of a large job hears of workers, and looks at them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.launch_fakes import Clock, FakeCoordinator, state
from tfdist.launch.agent.hang_detection import HangDetector
from tfdist.launch.peers.beat_interval import beat_seconds, gather_seconds, observe_seconds, straggler_seconds
from tfdist.launch.peers.messages import Beat
from tfdist.rundir.worker_state_record import State


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
