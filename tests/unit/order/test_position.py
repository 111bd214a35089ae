from __future__ import annotations

import pytest

from tfdist.order.position import START, Position


def test_later_places_are_greater() -> None:
    assert START < Position(0, 1) < Position(0, 9) < Position(1) < Position(1, 2)


@pytest.mark.parametrize(("epoch", "step", "total"), [(0, 0, 0), (0, 26, 26), (1, 0, 26), (3, 4, 82)])
def test_steps_of_the_run(epoch: int, step: int, total: int) -> None:
    assert Position(epoch, step).total(26) == total


@pytest.mark.parametrize(("epoch", "step"), [(-1, 0), (0, -1)])
def test_impossible_places(epoch: int, step: int) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Position(epoch, step)
