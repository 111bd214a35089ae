"""Bounds of a host that is being connected to: to answer, and then to check."""

from __future__ import annotations

from typing import cast

import pytest

from tfdist.multihost.hosts import Host
from tfdist.multihost.launching import host_group
from tfdist.multihost.launching.host_group import CHECK_SECONDS, HostGroup, HostState, LaunchHost
from tfdist.multihost.launching.host_link import Heard, HostLink, HostProblem

SECONDS = 6.0


class _Silent:
    """A link to a program that goes on."""

    def poll(self) -> int | None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(host_group.time, "monotonic", lambda: now[0])
    return now


def connecting() -> LaunchHost:
    return LaunchHost(Host("h1"), HostState.CONNECTING, cast(HostLink, _Silent()))


def step(host: LaunchHost, *answers: dict[str, object]) -> None:
    HostGroup.take_answer(host, Heard(answers=list(answers)))
    HostGroup.check_connection(host, lambda *_: HostProblem("has not answered in time"), SECONDS)


def test_a_host_that_does_not_answer_has_the_time_that_it_was_given(clock: list[float]) -> None:
    host = connecting()
    for clock[0], state in ((SECONDS, HostState.CONNECTING), (SECONDS + 0.1, HostState.LOST)):
        step(host)
        assert host.state is state
    assert host.problem == HostProblem("has not answered in time")


def test_what_a_host_checks_is_no_part_of_it(clock: list[float]) -> None:
    host = connecting()
    clock[0] = SECONDS - 1
    step(host, {"here": True})
    # Another word does not begin it anew.
    clock[0] += CHECK_SECONDS
    step(host, {"here": True})
    assert host.state is HostState.CONNECTING
    clock[0] += 1
    step(host)
    assert host.problem is not None and "has answered, and has not said within 30 s" in host.problem.what


def test_a_host_that_is_connected_to_again_has_to_answer_again(clock: list[float]) -> None:
    host = connecting()
    step(host, {"here": True}, {"refused": {"what": "is busy"}})
    assert host.state is HostState.LOST
    host.connect_again(cast(HostLink, _Silent()))
    clock[0] = SECONDS + 0.1
    step(host)
    assert host.problem == HostProblem("has not answered in time")
