"""Epoch spans: the steps of epochs follow one another over pass after pass."""

from __future__ import annotations

import numpy as np
import pytest

from tfdist.order.epoch_order import EpochSteps
from tfdist.order.epoch_span import START, EpochSpan, Position


def steps_of(span: EpochSpan, epoch: int, first: int = 0, last: int | None = None) -> list[tuple[int, int]]:
    """Every step as its pass and its place there."""
    return [(part.number, step) for part in span.passes(epoch, first, last) for step in range(part.first, part.last)]


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 20])
@pytest.mark.parametrize(("samples", "batch_size"), [(10, 4), (8, 4), (3, 4), (1, 1)])
def test_epochs_take_every_step_of_every_pass_once(samples: int, batch_size: int, steps: int) -> None:
    span = EpochSpan(samples, batch_size, steps)
    taken = [step for epoch in range(9) for step in steps_of(span, epoch)]
    assert taken == [divmod(step, span.steps_per_pass) for step in range(9 * steps)]
    assert len(span) == steps


def test_without_a_number_of_steps_an_epoch_is_a_pass() -> None:
    span = EpochSpan(10, 4)
    assert len(span) == 3
    assert steps_of(span, 5) == [(5, 0), (5, 1), (5, 2)]
    assert steps_of(span, 5, 1, 2) == [(5, 1)]
    assert steps_of(span, 5, 3) == []


@pytest.mark.parametrize("steps", [None, 1, 2, 5, 11])
def test_the_samples_of_steps_are_those_of_their_batches(steps: int | None) -> None:
    span = EpochSpan(10, 4, steps)
    sizes = np.diff(EpochSteps(10, 4).pieces(0, 3, [0]))[:, 0].tolist()
    for epoch in range(4):
        for first in range(len(span) + 1):
            expected = sum(sizes[step] for _, step in steps_of(span, epoch, first))
            assert span.samples(epoch, first) == expected


def test_an_epoch_far_away_costs_as_much_as_the_first() -> None:
    span = EpochSpan(10**12, 100, 7)
    assert steps_of(span, 10**15, 2, 4) == [divmod(7 * 10**15 + step, 10**10) for step in (2, 3)]


def test_later_places_are_greater() -> None:
    assert START < Position(0, 1) < Position(0, 9) < Position(1) < Position(1, 2)


@pytest.mark.parametrize(("epoch", "step", "total"), [(0, 0, 0), (0, 26, 26), (1, 0, 26), (3, 4, 82)])
def test_steps_of_the_run(epoch: int, step: int, total: int) -> None:
    assert Position(epoch, step).total(26) == total


@pytest.mark.parametrize(("epoch", "step"), [(-1, 0), (0, -1)])
def test_impossible_places(epoch: int, step: int) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Position(epoch, step)
