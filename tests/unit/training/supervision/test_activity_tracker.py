from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import pytest

from tests.unit.training.supervision.clock import Clock
from tfdist.rundir import State
from tfdist.rundir.ledger_lines import TimeKind
from tfdist.training.supervision.activity import Limits
from tfdist.training.supervision.activity_tracker import ActivityTracker


@pytest.fixture
def tracker(clock: Clock) -> ActivityTracker:
    return ActivityTracker(Limits(first_step=600.0, step=60.0), clock)


def around(tracker: ActivityTracker, what: str) -> AbstractContextManager[None]:
    return {
        "calling": lambda: tracker.calling("fit"),
        "saving": tracker.saving,
        "forming": tracker.forming,
        "spending": lambda: tracker.spending(TimeKind.RESTORE),
    }[what]()


@pytest.mark.parametrize("what", ["calling", "saving", "forming", "spending"])
def test_notifies_of_the_start_and_the_end_of_what_it_does(tracker: ActivityTracker, what: str) -> None:
    changed = threading.Event()
    tracker.notify_of_changes(changed)
    with pytest.raises(KeyError), around(tracker, what):
        assert changed.is_set()
        changed.clear()
        raise KeyError
    assert changed.is_set()
    assert (tracker.snapshot().state, tracker.limit) == (State.STARTING, None)


def test_of_all_batches_it_notifies_of_the_first_alone(tracker: ActivityTracker) -> None:
    changed, stepped = threading.Event(), threading.Event()
    with tracker.calling("fit"):
        tracker.notify_of_changes(changed)
        tracker.notify_of_first_step(stepped)
        tracker.begin_batches()
        assert not changed.is_set() and not stepped.is_set()
        tracker.end_batches(2)
        assert changed.is_set() and stepped.is_set(), "it has compiled"
        for event in (changed, stepped):
            event.clear()
        tracker.begin_batches()
        tracker.end_batches(2)
        tracker.move()
        assert not changed.is_set() and not stepped.is_set()


def test_says_how_long_it_has_been_quiet(tracker: ActivityTracker, clock: Clock) -> None:
    tracker.resume(epoch=3, step=40)
    tracker.pace(rate=8.0, busy=0.5, step_seconds=0.75)
    clock.now += 7
    seen = tracker.snapshot()
    assert (seen.epoch, seen.step, seen.quiet) == (3, 40, 7.0)
    assert (seen.rate, seen.busy, seen.step_seconds) == (8.0, 0.5, 0.75)
    tracker.move()
    assert tracker.snapshot().quiet == 0
    assert not tracker.has_begun
