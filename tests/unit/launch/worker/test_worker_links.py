"""Tests of when workers start with links, and what they get."""

from __future__ import annotations

import errno
import itertools
import os
import resource
from dataclasses import replace

import pytest

from tests.helpers.launch_fakes import assignments
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
        assert [replace(each, links=(), linked=(), host_workers=(), feed_sockets=()) for each in found] == given
        assert [each.linked for each in found] == [(0, 1, 2)] * 3
        assert [[len(fds) for fds in each.links] for each in found] == [[3, 3, 3]] * 3
        assert len({fds[0] for each in found for fds in each.links}) == 3  # the memory of each set
        assert len({fd for each in found for fds in each.links for fd in fds}) == 3 * 7
        handed = Assignment.from_environ(found[1].to_environ({}))
        assert handed is not None
        assert handed.links == found[1].links
        assert handed.inherited_fds == (*itertools.chain(*found[1].links), *found[1].feed_sockets)
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
        assert [replace(each, host_workers=(), feed_sockets=()) for each in found] == given


@pytest.mark.parametrize("communication", ["auto", "ring", "nccl"])
@pytest.mark.parametrize("count", [2, worker_links.MOST_WORKERS + 4])
def test_the_first_worker_of_a_launcher_has_a_socket_to_each_other_one(communication: str, count: int) -> None:
    given = [replace(each, communication=communication) for each in assignments(count, remote=1)]
    with linked(given, refuse) as found:
        first, *others = found
        assert all(each.host_workers == tuple(range(count)) for each in found)
        for descriptor, other in zip(first.feed_sockets, others, strict=True):
            near, far = os.dup(descriptor), os.dup(*other.feed_sockets)
            os.write(near, b"to %d" % other.index)
            assert os.read(far, 64) == b"to %d" % other.index
            os.close(near)
            os.close(far)
        handed = Assignment.from_environ(first.to_environ({}))
        assert handed is not None
        assert (handed.host_workers, handed.feed_sockets) == (first.host_workers, first.feed_sockets)
        assert set(first.feed_sockets) <= set(handed.inherited_fds)
    for descriptor in first.feed_sockets:
        with pytest.raises(OSError):
            os.fstat(descriptor)


def test_a_worker_that_is_alone_on_its_host_draws_for_nobody() -> None:
    with linked(assignments(1, remote=2), refuse) as found:
        assert (found[0].host_workers, found[0].feed_sockets) == ((), ())


def test_a_system_that_gives_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(worker_links, "HostLinks", refused)
    monkeypatch.setattr(worker_links, "HostStar", refused)
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
            assert [replace(each, host_workers=(), feed_sockets=()) for each in found] == given
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert os.strerror(errno.EMFILE) in said[0]
    assert set(os.listdir("/proc/self/fd")) == before
