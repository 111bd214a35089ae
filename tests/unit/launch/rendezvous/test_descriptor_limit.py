from __future__ import annotations

import resource

import pytest

from tfdist.errors import FormingError
from tfdist.launch.rendezvous.descriptor_limit import raise_limit

NONE = resource.RLIM_INFINITY


class Limits:
    """The limits of a process, as the system keeps them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
        self.now = soft, hard
        monkeypatch.setattr(resource, "getrlimit", lambda which: self.now)
        monkeypatch.setattr(resource, "setrlimit", self._set)

    def _set(self, which: int, limits: tuple[int, int]) -> None:
        assert which == resource.RLIMIT_NOFILE
        self.now = limits


@pytest.mark.parametrize(
    ("links", "soft", "hard", "after"),
    [
        (2, 256, 4096, 256),  # small jobs keep what they have
        (2, 1024, 1024, 1024),
        (1000, 1024, 1_048_576, 2152),
        (1000, 1024, 2000, 2000),  # as far as it goes
        (1000, 1024, 1128, 1128),  # just enough
        (1000, 1024, NONE, 2152),
        (1000, 1_048_576, 1_048_576, 1_048_576),
        (1000, NONE, NONE, NONE),
    ],
)
def test_the_limit_is_raised_as_far_as_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, links: int, soft: int, hard: int, after: int
) -> None:
    limits = Limits(monkeypatch, soft, hard)
    raise_limit(links)
    assert limits.now == (after, hard)


def test_a_limit_that_is_too_low_is_an_error_that_says_how_to_raise_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Limits(monkeypatch, 1024, 1024)
    with pytest.raises(FormingError, match=r"(?s)up to 999 other launchers.*1024 at most.*`ulimit -n 1127`") as raised:
        raise_limit(999)
    assert raised.value.exit_code == 3
