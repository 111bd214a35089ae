"""Structures of a pruning, and what a user may ask of each."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.training.pruning.structure import Structure


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
