from __future__ import annotations

import pytest

from benchmarks.comparison.spread import Spread, digits, ratios


def test_a_spread_is_the_median_with_the_range() -> None:
    spread = Spread.of([3.0, 1.0, 2.0, 10.0])
    assert spread == Spread(2.5, 1.0, 10.0)
    assert str(spread) == "2.50 (1.00 to 10.0)"
    assert ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (0.01234, "0.0123"), (0.92, "0.920"), (0.9994, "0.999"), (0.9996, "1.00")),
        *((9.994, "9.99"), (9.996, "10.0")),
        *((87.06, "87.1"), (99.96, "100"), (412.4, "412"), (1234.0, "1234")),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert digits(value) == text
