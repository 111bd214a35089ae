"""What the time of a worker is spent on, from the events of its activity."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfdist.rundir.ledger_lines import TimeKind
from tfdist.training.supervision.activity import Activity, Limits

Event = Callable[[Activity, float], None]


def fit(activity: Activity, now: float) -> None:
    activity.begin_call("fit", now=now)


def evaluate(activity: Activity, now: float) -> None:
    activity.begin_call("evaluate", now=now)


def end(activity: Activity, now: float) -> None:
    activity.end_call(now)


def batch(activity: Activity, now: float) -> None:
    """A training batch of a second that ends now."""
    activity.begin_batches(now - 1)
    activity.end_batches(trained=1, now=now)


def examined(activity: Activity, now: float) -> None:
    """A batch of an evaluation that ends now."""
    activity.begin_batches(now - 1)
    activity.end_batches(trained=0, now=now)


def epoch_end(activity: Activity, now: float) -> None:
    activity.leave_steps(now)


def save(activity: Activity, now: float) -> None:
    """A save of a second that ends now."""
    activity.begin_part(CHECKPOINT, now - 1)
    activity.begin_part(CHECKPOINT, now - 0.5)
    activity.end_part(now - 0.5)
    activity.end_part(now)


def form(activity: Activity, now: float) -> None:
    """The workers take a second to find one another."""
    activity.begin_part(FORMING, now - 1)
    activity.end_part(now)


def restore(activity: Activity, now: float) -> None:
    """A second to restore a checkpoint."""
    activity.begin_part(RESTORE, now - 1)
    activity.end_part(now)


STEP, COMPILE, START_UP, EVALUATION = TimeKind.STEP, TimeKind.COMPILE, TimeKind.START_UP, TimeKind.EVALUATION
CHECKPOINT, CALLBACK, OTHER = TimeKind.CHECKPOINT, TimeKind.CALLBACK, TimeKind.OTHER
FORMING, BUILDING, RESTORE = TimeKind.FORMING, TimeKind.BUILDING, TimeKind.RESTORE


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ({}, {START_UP: 20}),
        ({4: fit, 9: batch}, {START_UP: 4, COMPILE: 5, STEP: 11}),  # what comes between two batches is a step's
        ({4: fit, 9: batch, 12: batch}, {START_UP: 4, COMPILE: 5, STEP: 11}),
        ({4: fit, 9: batch, 12: save, 14: batch}, {START_UP: 4, COMPILE: 5, STEP: 10, CHECKPOINT: 1}),
        ({2: save, 4: fit, 9: batch}, {START_UP: 3, CHECKPOINT: 1, COMPILE: 5, STEP: 11}),
        # Once the workers have found one another, and wherever a checkpoint is restored.
        ({3: form, 7: fit, 9: batch}, {START_UP: 2, FORMING: 1, BUILDING: 4, COMPILE: 2, STEP: 11}),
        (
            {3: form, 6: restore, 7: fit, 9: restore, 11: batch},
            {START_UP: 2, FORMING: 1, BUILDING: 3, RESTORE: 2, COMPILE: 3, STEP: 9},
        ),
        # The end of an epoch lasts until the next batch begins.
        ({4: fit, 9: batch, 10: epoch_end, 15: batch}, {START_UP: 4, COMPILE: 5, STEP: 7, CALLBACK: 4}),
        # An evaluation inside of a fit compiles once.
        (
            {1: fit, 2: batch, 3: evaluate, 5: examined, 6: end, 9: batch, 10: evaluate, 12: examined, 13: end},
            {START_UP: 1, COMPILE: 3, STEP: 3, EVALUATION: 4, CALLBACK: 9},
        ),
        ({1: evaluate, 3: examined, 4: end}, {START_UP: 1, COMPILE: 2, EVALUATION: 1, OTHER: 16}),
        ({4: fit, 9: batch, 10: epoch_end, 11: end}, {START_UP: 4, COMPILE: 5, STEP: 1, CALLBACK: 1, OTHER: 9}),
        # A call that raises before its first batch.
        ({4: fit, 9: end, 10: fit, 12: batch}, {START_UP: 5, COMPILE: 7, STEP: 8}),
        # train_on_batch
        ({3: batch, 6: batch}, {START_UP: 2, COMPILE: 1, STEP: 1, OTHER: 16}),
    ],
)
def test_every_second_has_one_place(events: dict[int, Event], seconds: dict[TimeKind, float]) -> None:
    activity = Activity(Limits(100.0, 10.0), 0.0)
    for now, event in events.items():
        event(activity, now)
    assert activity.take(20.0).seconds == seconds


def test_stretches_follow_one_another() -> None:
    activity = Activity(Limits(100.0, 10.0), 0.0)
    fit(activity, 1)
    batch(activity, 3)
    first = activity.take(4.0)
    assert (first.seconds, first.steps, first.step) == ({START_UP: 1, COMPILE: 2, STEP: 1}, 1, 1)
    second = activity.take(6.0)
    assert (second.seconds, second.steps, second.step) == ({STEP: 2}, 0, 1)


@pytest.mark.parametrize(
    ("waits", "taken"),
    [
        ([(5, 0.0), (8, 2.0)], {COMPILE: 1, STEP: 7, TimeKind.INPUT: 2}),
        # What was waited before the first look belongs to compiling.
        ([(5, 3.0)], {COMPILE: 1, STEP: 9}),
        ([(5, 3.0), (8, 5.0)], {COMPILE: 1, STEP: 7, TimeKind.INPUT: 2}),
        ([(5, 0.0), (8, -0.001)], {COMPILE: 1, STEP: 9}),  # a clock that was set
        ([(5, 0.0), (8, 30.0)], {COMPILE: 1, STEP: 0, TimeKind.INPUT: 9}),
    ],
)
def test_waiting_for_data_is_no_step(waits: list[tuple[float, float]], taken: dict[TimeKind, float]) -> None:
    activity = Activity(Limits(100.0, 10.0), 0.0)
    fit(activity, 0)
    batch(activity, 1)
    for now, total in waits:
        batch(activity, now)
        activity.wait_for_data(total)
    assert activity.take(10.0).seconds == taken


def test_a_wait_that_is_longer_than_a_stretch_comes_off_the_next() -> None:
    activity = Activity(Limits(100.0, 10.0), 0.0)
    fit(activity, 0)
    batch(activity, 1)
    activity.wait_for_data(0.0)
    activity.take(10.0)
    batch(activity, 12)
    activity.wait_for_data(5.0)
    assert activity.take(13.0).seconds == {STEP: 0, TimeKind.INPUT: 3}
    assert activity.take(20.0).seconds == {STEP: 5, TimeKind.INPUT: 2}
