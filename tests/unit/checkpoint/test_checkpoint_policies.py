from __future__ import annotations

import math

import pytest

from tfdist.checkpoint.checkpoint_policies import MOST_STEPS_BETWEEN_LOOKS, CheckpointInfo, RetentionPolicy, SavePolicy


@pytest.mark.parametrize(
    ("every", "step", "due", "until"),
    [
        (5, 5, True, 5),
        (5, 6, False, 4),
        (5, 9, False, 1),
        (5, 10, True, 5),
        (1, 3, True, 1),
        (None, 5, False, math.inf),
    ],
)
def test_by_steps(every: int | None, step: int, due: bool, until: float) -> None:
    policy = SavePolicy(every_steps=every)
    assert (policy.is_due_at(step), policy.steps_until_due(step)) == (due, until)


@pytest.mark.parametrize(
    ("every", "seconds", "due"), [(60.0, 59.9, False), (60.0, 60.0, True), (60.0, 90.0, True), (None, 1e9, False)]
)
def test_by_the_clock(every: float | None, seconds: float, due: bool) -> None:
    assert SavePolicy(every_seconds=every).is_due_after(seconds) == due


@pytest.mark.parametrize(
    ("every", "seconds", "per_step", "steps"),
    [
        (None, 0.0, 1.0, math.inf),
        (60.0, 0.0, None, 1),  # nothing measured yet
        (60.0, 0.0, 1.0, 30),  # half of the way
        (60.0, 59.5, 1.0, 1),
        (60.0, 70.0, 1.0, 1),  # overdue
        (60.0, 0.0, 100.0, 1),  # one step takes longer
        (3600.0, 0.0, 0.0001, MOST_STEPS_BETWEEN_LOOKS),
        (3600.0, 0.0, 0.0, MOST_STEPS_BETWEEN_LOOKS),
    ],
)
def test_looks_at_the_clock(every: float | None, seconds: float, per_step: float | None, steps: float) -> None:
    assert SavePolicy(every_seconds=every).steps_until_look(seconds, per_step) == steps


def test_looks_come_closer_until_it_is_due() -> None:
    """As the workers use it: with steps of 0.1 s, a checkpoint every 60 s is at most a step late, after few looks."""
    policy, step, looks = SavePolicy(every_seconds=60.0), 0, 0
    while not policy.is_due_after(step * 0.1):
        step += int(policy.steps_until_look(step * 0.1, 0.1))
        looks += 1
    assert step * 0.1 <= 60.1
    assert looks < 15


@pytest.mark.parametrize("fields", [{"every_steps": 0}, {"every_steps": -1}, {"every_seconds": 0.0}])
def test_impossible_policies(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="positive"):
        SavePolicy(**fields)


NAN = math.nan


def ends(step: int, epochs: int, loss: float | None = None, number: int = 0) -> CheckpointInfo:
    """A checkpoint at the end of an epoch."""
    return CheckpointInfo(step, number, epochs, {} if loss is None else {"val_loss": loss})


def gone(retention: RetentionPolicy, saved: list[CheckpointInfo], newest: CheckpointInfo) -> list[tuple[int, int]]:
    return [entry.key for entry in retention.obsolete(saved, newest)]


@pytest.mark.parametrize(
    ("saved", "newest", "latest", "expected"),
    [
        ([(5, 0)], (5, 0), 1, []),
        ([(5, 0), (10, 0)], (10, 0), 1, [(5, 0)]),
        ([(5, 0), (10, 0), (15, 0)], (15, 0), 2, [(5, 0)]),
        ([(10, 0), (10, 1)], (10, 1), 3, [(10, 0)]),  # the same step again
        ([(5, 0), (5, 1), (10, 0)], (10, 0), 2, [(5, 0)]),
        ([(5, 0), (10, 0), (20, 0)], (10, 0), 3, [(20, 0)]),  # damaged, so that the run resumed from before it
    ],
)
def test_the_latest(
    saved: list[tuple[int, int]], newest: tuple[int, int], latest: int, expected: list[tuple[int, int]]
) -> None:
    assert gone(RetentionPolicy(latest), [CheckpointInfo(*key) for key in saved], CheckpointInfo(*newest)) == expected


@pytest.mark.parametrize(
    ("losses", "larger", "kept"),
    [
        ([0.5, 0.3, 0.4, 0.6], False, [20, 40]),
        ([0.5, 0.3, 0.4, 0.6], True, [40]),
        ([0.3, 0.3, 0.4, 0.6], False, [10, 40]),  # of equal ones the earliest
        ([NAN, 0.4, NAN, NAN], False, [20, 40]),  # no number is no best
        ([NAN, NAN, NAN, NAN], True, [40]),
        ([None, 0.9, 0.8, None], True, [20, 40]),  # not every epoch is evaluated
        ([0.5, math.inf, -math.inf, 0.1], False, [30, 40]),
        ([0.5, 0.4, 0.3, 0.2], False, [40]),  # the newest is the best
    ],
)
def test_the_best(losses: list[float | None], larger: bool, kept: list[int]) -> None:
    saved = [ends(10 * n, n, loss) for n, loss in enumerate(losses, 1)]
    retention = RetentionPolicy(1, best="val_loss", larger_is_better=larger)
    removed = gone(retention, saved, saved[-1])
    assert [entry.step for entry in saved if entry.key not in removed] == kept


def test_the_best_of_a_past_that_the_run_left_is_not_the_best() -> None:
    saved = [ends(10, 1, 0.5), ends(20, 2, 0.1), ends(10, 1, 0.4, number=1)]
    assert gone(RetentionPolicy(3, best="val_loss"), saved, saved[2]) == [(10, 0), (20, 0)]


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (RetentionPolicy(1), [45]),
        (RetentionPolicy(1, every_steps=20), [20, 40, 45]),
        (RetentionPolicy(1, every_steps=10), [10, 20, 30, 40, 45]),
        (RetentionPolicy(1, every_epochs=2), [30, 45]),  # epochs have 15 steps
        (RetentionPolicy(1, every_epochs=1), [15, 30, 45]),
        (RetentionPolicy(2, every_steps=20, every_epochs=1), [15, 20, 30, 40, 45]),
        (RetentionPolicy(2, every_epochs=3), [40, 45]),
    ],
)
def test_every_mth_is_kept_for_good(retention: RetentionPolicy, kept: list[int]) -> None:
    """As a run proceeds, with one made every 5 steps and at the end of every epoch of 15."""
    saved: list[CheckpointInfo] = []
    for step in range(5, 50, 5):
        newest = CheckpointInfo(step, 0, step // 15 if step % 15 == 0 else None)
        saved.append(newest)
        removed = gone(retention, saved, newest)
        saved = [entry for entry in saved if entry.key not in removed]
    assert [entry.step for entry in saved] == kept


def test_one_made_within_an_epoch_counts_for_no_epoch() -> None:
    saved = [CheckpointInfo(15, 0), CheckpointInfo(20, 0)]
    assert gone(RetentionPolicy(1, every_epochs=1), saved, saved[1]) == [(15, 0)]


@pytest.mark.parametrize("fields", [{"latest": 0}, {"every_steps": 0}, {"every_epochs": -1}])
def test_impossible_rules(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        RetentionPolicy(**fields)
