import os

import pytest

from benchmarks.comparison.core_distance import CoreDistance


def test_each_measurement_is_a_time() -> None:
    cores = sorted(os.sched_getaffinity(0))
    distance = CoreDistance([cores[0], cores[-1]])
    distance.measure()
    distance.measure()
    assert len(distance.microseconds) == 2 and min(distance.microseconds) > 0
    assert os.sched_getaffinity(0) == set(cores)
    assert "microseconds between runs" in distance.describe()


@pytest.mark.parametrize(("microseconds", "is_changed"), [([28.0, 33.0], False), ([28.0, 205.0, 31.0], True)])
def test_cores_that_were_moved_are_told(microseconds: list[float], is_changed: bool) -> None:
    distance = CoreDistance([0, 1])
    distance.microseconds = microseconds
    assert ("near each other at one time and far at another" in distance.describe()) == is_changed
    assert f"took {min(microseconds):.0f} to {max(microseconds):.0f} microseconds" in distance.describe()


def test_one_core_has_nobody_to_hand_memory_to() -> None:
    distance = CoreDistance([0])
    distance.measure()
    assert (distance.microseconds, distance.describe()) == ([], "")
