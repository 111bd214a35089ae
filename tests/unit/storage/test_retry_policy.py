from __future__ import annotations

import itertools

import pytest

from tfdist.storage.s3_requests import RetryPolicy


def waits(policy: RetryPolicy, share: float, *, is_known: bool = True) -> list[float]:
    """The waits between attempts that fail at once."""
    found: list[float] = []
    for failed in itertools.count(1):
        wait = policy.wait(failed, sum(found), share, is_known=is_known)
        if wait is None:
            return found
        found.append(wait)
    raise AssertionError


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_waits_grow_and_end_within_the_bound(share: float) -> None:
    found = waits(RetryPolicy(), share)
    assert found == sorted(found) and found[-1] <= RetryPolicy().longest_wait
    assert sum(found) < RetryPolicy().seconds and len(found) < RetryPolicy().attempts


def test_those_that_failed_together_come_back_apart() -> None:
    assert waits(RetryPolicy(), 0.0)[0] == waits(RetryPolicy(), 1.0)[0] / 2


def test_an_address_that_never_answered_is_tried_less_often() -> None:
    assert len(waits(RetryPolicy(), 0.5, is_known=False)) == RetryPolicy().first_attempts - 1


@pytest.mark.parametrize(
    ("elapsed", "bound"), [(0.0, 60.0), (59.0, 60.0), (100.0, 20.0), (120.0, 0.01), (500.0, 0.01)]
)
def test_an_attempt_ends_with_the_whole(elapsed: float, bound: float) -> None:
    assert RetryPolicy().bound(elapsed) == pytest.approx(bound)


def test_a_failure_after_the_bound_is_the_last() -> None:
    assert RetryPolicy(seconds=1.0).wait(1, 2.0, 0.5) is None
