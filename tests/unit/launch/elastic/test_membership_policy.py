"""Which hosts stay out of an elastic job, and for how long; which losses are none of the job's restarts."""

from __future__ import annotations

from typing import Any

import pytest

from tfdist.launch.elastic.membership_policy import (
    MOST_REST_SECONDS,
    Begin,
    HostLosses,
    MembershipPolicy,
    TooFew,
    Wait,
    go_on_without,
    that_fit,
)
from tfdist.rundir.failure import Failure

POLICY = MembershipPolicy(candidates=4, min_workers=3, start_timeout=120.0, rejoin_timeout=60.0)
ALL = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("present", "before", "waited", "enough", "expected"),
    [
        # The first generation waits for all, as any job does.
        (ALL, None, 0.0, 0.0, Begin(ALL)),
        ((0, 1), None, 5.0, 0.0, Wait((2, 3), 115.0)),
        ((0, 1), None, 120.0, 0.0, TooFew((2, 3), 120.0)),
        # Once there are enough, those that are missing have the time of a host that was lost, and no longer.
        ((0, 1, 3), None, 5.0, 0.0, Wait((2,), 60.0)),
        ((0, 1, 3), None, 70.0, 60.0, Begin((0, 1, 3))),
        ((0, 1, 3), None, 120.0, 1.0, Begin((0, 1, 3))),
        # A later one waits for those that were there, and not for those that were missing before.
        (ALL, ALL, 0.0, 0.0, Begin(ALL)),
        ((0, 1, 3), ALL, 0.0, 0.0, Wait((2,), 60.0)),
        ((0, 1, 3), ALL, 60.0, 60.0, Begin((0, 1, 3))),
        ((0, 1, 3), (0, 1, 3), 0.0, 0.0, Begin((0, 1, 3))),
        ((0, 3), (0, 1, 3), 59.0, 0.0, Wait((1,), 1.0)),
        ((0, 3), (0, 1, 3), 60.0, 0.0, TooFew((1, 2), 60.0)),
        # One that was missing takes the place of one that is lost, who is waited for all the same.
        ((0, 2, 3), (0, 1, 3), 1.0, 1.0, Wait((1,), 59.0)),
        ((0, 2, 3), (0, 1, 3), 60.0, 60.0, Begin((0, 2, 3))),
        (ALL, (0, 1, 3), 0.0, 0.0, Begin(ALL)),
    ],
)
def test_when_a_generation_begins(
    present: tuple[int, ...],
    before: tuple[int, ...] | None,
    waited: float,
    enough: float,
    expected: Begin | Wait | TooFew,
) -> None:
    assert POLICY.decide(present, before, waited, enough) == expected


@pytest.mark.parametrize(
    ("present", "launchers", "expected"),
    [
        (ALL, [(0,), (1,), (2,), (3,)], ALL),
        ((0, 1, 3), [(0,), (1,), (3,)], (0, 1)),  # groups of two: the last one waits
        ((0, 1, 2), [(0,), (1, 2)], (0, 1, 2)),  # no number of them makes groups, by whole launchers
        ((0, 1, 2, 3, 4), [(0, 1), (2,), (3, 4)], (0, 1)),
    ],
)
def test_who_fills_groups(
    present: tuple[int, ...], launchers: list[tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    assert that_fit(present, launchers, lambda some: len(some) % 2 == 0) == expected


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
