"""A draw that fails becomes as small as what makes it fail."""

from __future__ import annotations

import pytest

from tests.random_trial.draw import Draw
from tests.random_trial.drawing import draw_of
from tests.random_trial.shrinking import shrunken, simpler_than


def has_dropout(draw: Draw) -> bool:
    return any("Dropout" in made for part in draw.parts for made in part.makes)


def is_clipped_and_of_two_outputs(draw: Draw) -> bool:
    return "clipnorm" in draw.optimizer and len(draw.heads) > 1


@pytest.mark.parametrize("fails", [has_dropout, is_clipped_and_of_two_outputs])
def test_what_is_left_is_what_fails(fails) -> None:
    failing = [draw for draw in map(draw_of, range(500)) if fails(draw)]
    assert len(failing) > 5
    for draw in failing:
        smallest = shrunken(draw, fails, lambda: True)
        assert fails(smallest)
        assert not any(fails(simpler) for simpler in simpler_than(smallest))
        assert not (smallest.callbacks or smallest.compiled or smallest.is_of_workers)
        assert (smallest.precision, smallest.replicas, smallest.epochs) == ("float64", 2, 1)
        assert sum(len(head.metrics) + len(head.weighted_metrics) for head in smallest.heads) == 0


def test_it_ends_when_it_may_not_go_on() -> None:
    draw = draw_of(1)
    assert shrunken(draw, lambda simpler: True, lambda: False) == draw
