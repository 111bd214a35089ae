from __future__ import annotations

from collections.abc import Callable

import pytest

from tfdist.rundir.ledger_lines import TimeKind
from tfdist.training.supervision.tally import Tally

Event = Callable[[Tally, float], None]


def fit(tally: Tally, now: float) -> None:
    tally.begin_call(trains=True, now=now)


def evaluate(tally: Tally, now: float) -> None:
    tally.begin_call(trains=False, now=now)


def end(tally: Tally, now: float) -> None:
    tally.end_call(now)


def batch(tally: Tally, now: float) -> None:
    """A training batch of a second that ends now."""
    tally.begin_batches(now - 1)
    tally.end_batches(1, 7, now)


def examined(tally: Tally, now: float) -> None:
    """A batch of an evaluation that ends now."""
    tally.begin_batches(now - 1)
    tally.end_batches(0, 7, now)


def epoch_end(tally: Tally, now: float) -> None:
    tally.leave_steps(now)


def save(tally: Tally, now: float) -> None:
    """A save of a second that ends now."""
    tally.begin_part(CHECKPOINT, now - 1)
    tally.begin_part(CHECKPOINT, now - 0.5)
    tally.end_part(now - 0.5)
    tally.end_part(now)


def form(tally: Tally, now: float) -> None:
    """The workers take a second to find one another."""
    tally.begin_part(FORMING, now - 1)
    tally.end_part(now)


def restore(tally: Tally, now: float) -> None:
    """A second to restore a checkpoint."""
    tally.begin_part(RESTORE, now - 1)
    tally.end_part(now)


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
    tally = Tally(0.0)
    for now, event in events.items():
        event(tally, now)
    assert tally.take(20.0).seconds == seconds


def test_stretches_follow_one_another() -> None:
    tally = Tally(0.0)
    fit(tally, 1)
    batch(tally, 3)
    first = tally.take(4.0)
    assert (first.seconds, first.steps, first.step) == ({START_UP: 1, COMPILE: 2, STEP: 1}, 1, 7)
    second = tally.take(6.0)
    assert (second.seconds, second.steps, second.step) == ({STEP: 2}, 0, 7)


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
    tally = Tally(0.0)
    fit(tally, 0)
    batch(tally, 1)
    for now, total in waits:
        batch(tally, now)
        tally.waited(total)
    assert tally.take(10.0).seconds == taken


def test_a_wait_that_is_longer_than_a_stretch_comes_off_the_next() -> None:
    tally = Tally(0.0)
    fit(tally, 0)
    batch(tally, 1)
    tally.waited(0.0)
    tally.take(10.0)
    batch(tally, 12)
    tally.waited(5.0)
    assert tally.take(13.0).seconds == {STEP: 0, TimeKind.INPUT: 3}
    assert tally.take(20.0).seconds == {STEP: 5, TimeKind.INPUT: 2}
