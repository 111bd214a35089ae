"""The first of several failures."""

from __future__ import annotations

import pytest

from tfdist.launch.peers.root_cause import root_cause_first
from tfdist.rundir.failure import Failure


def failure(index: int, time: float, type: str = "ValueError") -> Failure:
    return Failure(index, "h", time, "exception", "boom", type=type)


@pytest.mark.parametrize(
    ("failures", "order"),
    [
        ([], []),
        ([failure(1, 2.0), failure(0, 1.0)], [0, 1]),
        # Clocks of two hosts differ, and a worker that raised takes a while to leave: the cause stays first.
        ([failure(0, 1.0, "tensorflow.python.framework.errors_impl.UnavailableError"), failure(1, 2.0)], [1, 0]),
        ([failure(0, 2.0, "UnavailableError"), failure(1, 1.0, "AbortedError")], [1, 0]),
        ([failure(0, 1.0, "tfdist.errors.WorkerFailedError"), failure(1, 2.0)], [1, 0]),
        ([failure(0, 1.0, "SIGABRT"), failure(1, 2.0, "SIGKILL")], [1, 0]),
        ([failure(0, 1.0), failure(0, 2.0), failure(1, 1.5)], [0, 1]),  # one worker, reported twice
    ],
)
def test_the_first_failure_is_found(failures: list[Failure], order: list[int]) -> None:
    assert [each.index for each in root_cause_first(failures)] == order
