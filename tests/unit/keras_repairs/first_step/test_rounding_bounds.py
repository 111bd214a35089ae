"""What differs by more than rounding: by what moving all numbers a little has shown of a variable, and of its kind."""

from __future__ import annotations

from tfdist.keras_repairs.first_step.few_rows import _prime_from
from tfdist.keras_repairs.first_step.rounding_bounds import RoundingBounds


def beyond(parted: float, spread: float, own: float, other: float, rest: float = 0.0) -> list[str]:
    """What is found of a weight that differs so, where moving all moves it and another weight so far.

    The second time the other one is moved by a part of that, `rest`.
    """
    bounds = RoundingBounds({"w": parted, "other": 0.0}, {"w": spread, "other": 0.0}, {"w", "other"}, 1e-5)
    bounds.widen({"w": own, "other": other})
    bounds.widen({"w": own, "other": rest * other})
    return [finding.name for finding in bounds.beyond]


def test_what_differs_as_far_as_it_moves_is_rounding() -> None:
    assert beyond(3e-3, 1e-3, own=1e-3, other=0.0) == []
    assert beyond(5e-3, 1e-3, own=1e-3, other=0.0) == ["w"]


def test_few_elements_may_leap_as_far_as_another_weight() -> None:
    assert beyond(0.5, 0.01, own=1e-6, other=0.2) == []
    assert beyond(0.5, 0.01, own=1e-6, other=0.1) == ["w"]


def test_a_weight_that_always_leaps_says_nothing_of_others() -> None:
    assert beyond(0.5, 0.01, own=1e-6, other=0.2, rest=1.0) == ["w"]


def test_one_weight_of_rounding_alone_lets_pass_no_fault_in_all_elements_of_another() -> None:
    assert beyond(0.5, 0.4, own=1e-6, other=1.0) == ["w"]


def test_a_weight_of_rounding_alone_may_leap_itself() -> None:
    assert beyond(3.0, 2.0, own=0.6, other=1.0) == []


def test_what_is_moved_itself_widens_no_other_bound() -> None:
    assert beyond(0.5, 0.01, own=1e-6, other=100.0) == ["w"]


def test_the_bounds_of_several_moves_are_the_widest() -> None:
    bounds = RoundingBounds({"w": 0.3}, {"w": 0.3}, (), 1e-5)
    bounds.widen({"w": 0.1})
    bounds.widen({"w": 0.0})
    assert not bounds.beyond


def test_a_number_of_rows_makes_no_pairs_nor_triplets() -> None:
    assert [_prime_from(number) for number in (2, 3, 5, 7, 9, 15, 25)] == [2, 3, 5, 7, 11, 17, 29]
