from __future__ import annotations

import math

import numpy as np
import pytest

from tfdist.verify.relative_difference import json_number, relative, relative_arrays


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (2.0, 2.0, 0.0),
        (0.0, 0.0, 0.0),
        (2.0, 1.0, 0.5),
        (1.0, -1.0, 2.0),
        (0.0, 1e-30, 1.0),
        (math.nan, math.nan, 0.0),
        (math.inf, math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
        (math.nan, 1.0, math.inf),
        (1.0, math.inf, math.inf),
    ],
)
def test_relative(a: float, b: float, expected: float) -> None:
    assert relative(a, b) == relative(b, a) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([], [], 0.0),
        ([3.0, 4.0], [3.0, 4.5], 0.5 / math.hypot(3, 4.5)),
        ([0.0, 0.0], [0.0, 1.0], 1.0),
        ([math.nan, 1.0], [math.nan, 1.0], 0.0),
        ([math.nan, 1.0], [math.nan, 2.0], 1 / math.sqrt(2) / 2),  # NaN does not count as an element's magnitude
        ([math.nan, 1.0], [1.0, 1.0], math.inf),
        ([math.inf, 1.0], [math.inf, 1.0], 0.0),
        ([math.inf], [1.0], math.inf),
        ([1.0], [1.0, 2.0], math.inf),
    ],
)
def test_relative_arrays(a: list[float], b: list[float], expected: float) -> None:
    one, two = np.asarray(a, np.float32), np.asarray(b, np.float32)
    assert relative_arrays(one, two) == pytest.approx(expected)
    assert relative_arrays(two, one) == pytest.approx(expected)


@pytest.mark.parametrize("size", [1e-250, 1e250])
def test_squares_that_float64_does_not_hold(size: float) -> None:
    assert relative_arrays(np.asarray([size, size]), np.asarray([size, 2 * size])) == pytest.approx(1 / math.sqrt(5))


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_difference_that_float64_does_not_hold() -> None:
    assert relative_arrays(np.asarray([1.7e308]), np.asarray([-1.7e308])) == math.inf


def test_one_element_of_many_counts_by_its_share() -> None:
    a, b = np.ones(10_000, np.float32), np.ones(10_000, np.float32)
    b[0] = -1.0
    assert relative_arrays(a, b) == pytest.approx(0.02)


def test_a_number_for_json() -> None:
    assert [json_number(value) for value in (None, 0.5, math.inf, -math.inf)] == [None, 0.5, "inf", "-inf"]
