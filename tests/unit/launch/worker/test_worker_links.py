"""Tests of when workers start with links, and what they get."""

from __future__ import annotations

import errno
import itertools
import os
import resource
from dataclasses import replace

import pytest

from tests.unit.launch.fakes import assignments
from tfdist.launch.environment import Assignment
from tfdist.launch.worker import worker_links
from tfdist.launch.worker.worker_links import linked


def refuse(text: str) -> None:
    raise AssertionError(text)


@pytest.mark.parametrize("communication", ["auto", "shm"])
@pytest.mark.parametrize("remote", [0, 2])
def test_the_workers_of_one_launcher_get_their_ends(communication: str, remote: int) -> None:
    given = [replace(each, communication=communication) for each in assignments(3, remote)]
    with linked(given, refuse) as found:
        assert [replace(each, links=(), linked=()) for each in found] == given
        assert [each.linked for each in found] == [(0, 1, 2)] * 3
        assert [[len(fds) for fds in each.links] for each in found] == [[3, 3, 3]] * 3
        assert len({fds[0] for each in found for fds in each.links}) == 3  # the memory of each set
        assert len({fd for each in found for fds in each.links for fd in fds}) == 3 * 7
        handed = Assignment.from_environ(found[1].to_environ({}))
        assert handed is not None
        assert handed.links == found[1].links
        assert handed.inherited_fds == tuple(itertools.chain(*found[1].links))
    for fd in handed.inherited_fds:
        with pytest.raises(OSError):
            os.fstat(fd)


@pytest.mark.parametrize(
    "given",
    [
        assignments(1),
        assignments(1, remote=2),
        [replace(each, communication="ring") for each in assignments(2)],
        [replace(each, compression="bfloat16") for each in assignments(2)],
        assignments(worker_links.MOST_WORKERS + 1),
    ],
    ids=["one worker", "all others elsewhere", "another communication", "sent compressed", "too many"],
)
def test_others_go_without(given: list[Assignment]) -> None:
    with linked(given, refuse) as found:
        assert found == given


def test_a_system_that_gives_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(worker_links, "HostLinks", refused)
    said: list[str] = []
    with linked(assignments(2), said.append) as found:
        assert found == assignments(2)
    assert len(said) == 1
    assert "over the network instead" in said[0]
    assert "Too many open files" in said[0]


def test_links_that_leave_no_descriptors_to_start_the_workers_are_not_made() -> None:
    given, said = assignments(3), list[str]()
    before = set(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with linked(given, refuse) as found:
        highest = max(fd for each in found for fds in each.links for fd in fds)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, limits[1]))
    try:
        with linked(given, said.append) as found:
            assert found == given
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert os.strerror(errno.EMFILE) in said[0]
    assert set(os.listdir("/proc/self/fd")) == before
