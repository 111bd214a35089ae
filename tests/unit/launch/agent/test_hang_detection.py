from __future__ import annotations

from tests.unit.launch.fakes import state
from tfdist.launch.agent.hang_detection import ProgressClock


def test_progress_of_one_is_progress_of_all() -> None:
    clock = ProgressClock()
    for now in range(100):
        clock.note(state(0, 5, limit=10.0), now)
        clock.note(state(1, now, limit=10.0), now)
        assert clock.hangs_since(now) is None
    assert clock.hangs_since(109.5) == 10.5


def test_a_repeated_state_is_no_progress() -> None:
    clock = ProgressClock()
    for now in range(12):
        clock.note(state(0, 5, limit=10.0, time=float(now)), now)
    assert clock.hangs_since(12) == 12


def test_a_worker_that_is_done_does_not_count() -> None:
    clock = ProgressClock()
    clock.note(state(0, 5, limit=10.0), 0)
    clock.forget(0)
    assert clock.hangs_since(1000) is None
