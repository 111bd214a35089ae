"""Structures of a pruning, and what a user may ask of each."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.training.pruning.sparsity import SparsitySchedule, Structure


def changes(schedule: SparsitySchedule) -> list[int]:
    found: list[int] = []
    step: int | None = schedule.next_change(-1)
    while step is not None:
        found.append(step)
        step = schedule.next_change(step)
    return found


@pytest.mark.parametrize(
    ("begin", "end", "every", "expected"),
    [
        (0, 10, 5, [0, 5, 10]),
        (2, 10, 3, [2, 5, 8, 10]),  # the end is one, whether `every` meets it or not
        (4, 4, 1, [4]),
        (0, 2, 100, [0, 2]),
    ],
)
def test_the_changes(begin: int, end: int, every: int, expected: list[int]) -> None:
    schedule = SparsitySchedule(0.8, begin, end, every)
    assert changes(schedule) == expected
    for step in range(end + 5):
        due = [change for change in expected if change <= step]
        assert schedule.last_change(step) == (due[-1] if due else None)


def test_the_sparsity_is_that_of_zhu_and_gupta() -> None:
    schedule = SparsitySchedule(0.8, 100, 1100, 100, initial=0.2)
    assert schedule.at(100) == pytest.approx(0.2)
    assert schedule.at(600) == pytest.approx(0.8 + (0.2 - 0.8) * 0.5**3)
    assert schedule.at(1100) == 0.8
    values = [schedule.at(change) for change in changes(schedule)]
    assert values == sorted(values)


def test_a_constant_one_prunes_once() -> None:
    schedule = SparsitySchedule(0.8, 7, 100, 10, kind="constant")
    assert changes(schedule) == [7]
    assert (schedule.last_change(6), schedule.last_change(500), schedule.at(7)) == (None, 7, 0.8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"begin": -1},
        {"begin": 1.5},
        {"begin": True},
        {"end": 3, "begin": 4},
        {"every": 0},
        {"initial": 0.9},
        {"initial": -0.1},
        {"power": 0},
        {"kind": "linear"},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Received"):
        SparsitySchedule(**{"sparsity": 0.8, "begin": 0, "end": 10, "every": 1, **wrong})


@pytest.mark.parametrize(
    ("name", "asked", "sparsity"),
    [("unstructured", 0.8, 0.8), ("channels", 0.5, 0.5), ("2:4", None, 0.5), ("1:4", 0.75, 0.75), ("4:8", None, 0.5)],
)
def test_the_sparsity(name: str, asked: float | None, sparsity: float) -> None:
    assert Structure.of(name).sparsity(asked) == sparsity


@pytest.mark.parametrize("name", ["4:4", "0:4", "5:4", "3:400", "2:", "blocks", "", "2:4:8", " 2:4"])
def test_what_is_no_structure_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="Expected"):
        Structure.of(name)


@pytest.mark.parametrize("asked", [0, 1, -0.5, 1.5, True, "0.8", float("nan")])
def test_what_is_no_sparsity_is_refused(asked: Any) -> None:
    with pytest.raises(UsageError, match="between 0 and 1.*Received: sparsity="):
        Structure.of("unstructured").sparsity(asked)


def test_percentages_are_recognized() -> None:
    with pytest.raises(UsageError, match=r"For 80 % write 0\.8"):
        Structure.of("unstructured").sparsity(80)


def test_a_pattern_has_a_sparsity_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"2:4 prunes 0\.5.*Received: sparsity=0\.8"):
        Structure.of("2:4").sparsity(0.8)


def test_the_others_need_one() -> None:
    with pytest.raises(UsageError, match="needs a sparsity"):
        Structure.of("channels").sparsity(None)
