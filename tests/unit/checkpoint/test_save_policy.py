from __future__ import annotations

import math

import pytest

from tfdist.checkpoint.save_policy import MOST_STEPS_BETWEEN_LOOKS, SavePolicy


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
