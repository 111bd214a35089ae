from __future__ import annotations

import pytest

from tfdist.launch.elastic.membership_policy import Begin, MembershipPolicy, TooFew, Wait, that_fit

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
