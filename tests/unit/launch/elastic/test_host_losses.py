"""Which hosts stay out of an elastic job, and for how long; which losses are none of the job's restarts."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.launch.elastic.host_losses import MOST_REST_SECONDS, HostLosses, go_on_without
from tfdist.rundir.failure import Failure

THREE, TWO = (0, 1, 2), (0, 1)


def lost(index: int, kind: Any = "lost") -> Failure:
    return Failure(index, f"h{index}", 0.0, kind, "it is gone")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_host_that_is_lost_once_may_come_back_at_once() -> None:
    losses = HostLosses(Clock())
    assert losses.note(THREE, [lost(2)], 7) == []
    assert not losses.is_out([2])


def test_one_that_is_lost_again_without_a_step_stays_out_for_a_growing_time() -> None:
    clock = Clock()
    losses = HostLosses(clock)
    losses.note(THREE, [lost(2)], 7)
    seconds = []
    for times in range(2, 12):
        # Meanwhile the others train.
        losses.note(TWO, [], 7 + times)
        (rest,) = losses.note(THREE, [lost(2, "start")], 7 + times)
        assert (rest.host, rest.losses) == ("h2", times)
        assert losses.is_out([1, 2]) and not losses.is_out([0, 1])
        clock.now += rest.seconds
        assert not losses.is_out([2])
        seconds.append(rest.seconds)
    assert seconds[:4] == [30, 60, 120, 240] and max(seconds) == seconds[-1] == MOST_REST_SECONDS
    assert str(rest).startswith("h2 was lost 11 times without a step in between: it stays out for 1800 s")


def test_a_step_with_it_begins_the_count_anew() -> None:
    losses = HostLosses(Clock())
    for step in range(1, 9):
        assert losses.note(THREE, [lost(2)], step) == []


def test_candidates_are_told_by_their_place_in_the_list() -> None:
    losses = HostLosses(Clock())
    for _ in range(2):
        losses.note((0, 3), [lost(1)], 0)
    assert losses.is_out([3]) and not losses.is_out([1])


@pytest.mark.parametrize(
    ("failures", "least", "goes_on"),
    [
        ([lost(2)], 2, True),
        ([lost(2), lost(1)], 2, False),
        ([lost(2), lost(1)], 1, True),
        ([lost(2)], 3, False),
        # What stands for a generation that did not form, and what a worker has done itself.
        ([lost(0)], 1, False),
        ([lost(1, "signal"), lost(2)], 1, False),
        ([lost(2), lost(1, "exception")], 1, True),
    ],
)
def test_which_losses_the_job_can_do_without(failures: list[Failure], least: int, goes_on: bool) -> None:
    assert go_on_without(THREE, failures, least) == goes_on
