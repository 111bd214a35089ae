from __future__ import annotations

import math
import sys

import pytest

from tfdist.reports.ledger.loss_chart import LossScale

LARGEST, SMALLEST = sys.float_info.max, 5e-324


@pytest.mark.parametrize(
    ("losses", "marks"),
    [
        ([0.1265, 1.736], [0.5, 1.0, 1.5]),
        ([0.0, 10.0], [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        ([-3.0, 2.0], [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0]),
        ([0.02, 2.5], [0.1, 1.0]),
        ([1e-9, 1e6], [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6]),
        ([0.5, 0.5], [0.5]),
    ],
)
def test_marks(losses: list[float], marks: list[float]) -> None:
    assert LossScale.of(losses).marks() == pytest.approx(marks)


def test_heights() -> None:
    linear, logarithmic = LossScale.of([1.0, 3.0, 2.0]), LossScale.of([0.01, 100.0])
    assert [linear.height(loss) for loss in (1.0, 2.0, 3.0)] == [0.0, 0.5, 1.0] and not linear.is_logarithmic
    assert [logarithmic.height(loss) for loss in (0.01, 1.0, 100.0)] == [0.0, 0.5, 1.0] and logarithmic.is_logarithmic
    assert LossScale.of([2.0]).height(2.0) == 0.5


@pytest.mark.parametrize(
    "losses",
    [
        [-LARGEST, LARGEST],
        [SMALLEST, LARGEST],
        [LARGEST, LARGEST / 100],
        [0.0, SMALLEST],
        [1e300, math.nextafter(1e300, 2e300)],
        [1.0, math.nextafter(1.0, 2.0)],
    ],
)
def test_floats_at_the_edges(losses: list[float]) -> None:
    scale = LossScale.of(losses)
    assert all(0.0 <= scale.height(loss) <= 1.0 for loss in losses)
    assert all(scale.low <= mark <= scale.high for mark in scale.marks()) and len(scale.marks()) < 10
