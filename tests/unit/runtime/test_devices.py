from __future__ import annotations

import pytest

from tfdist.errors import UsageError
from tfdist.runtime.devices import DeviceRequest, deal, share_of_cores


@pytest.mark.parametrize(
    ("gpus", "size", "dealt"),
    [
        (0, 1, [[]]),
        (0, 3, [[], [], []]),
        (1, 1, [[0]]),
        (2, 2, [[0], [1]]),
        (8, 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (5, 2, [[0, 1], [2, 3, 4]]),
    ],
)
def test_gpus_are_dealt_once_each(gpus: int, size: int, dealt: list[list[int]]) -> None:
    assert [list(deal(gpus, rank, size)) for rank in range(size)] == dealt


def test_fewer_gpus_than_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 1 worker"):
        deal(1, 0, 2)


@pytest.mark.parametrize(("cores", "size", "share"), [(8, 1, 8), (8, 2, 4), (2, 2, 1), (2, 3, 1), (7, 2, 3)])
def test_cores_are_shared(cores: int, size: int, share: int) -> None:
    assert share_of_cores(cores, size) == share


@pytest.mark.parametrize("wrong", [{"logical": 0}, {"memory_limit": 0}])
def test_impossible_requests(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="Received: 0"):
        DeviceRequest(**wrong)
