"""Tests of the links between the workers of one host."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import socket
import subprocess

import pytest

from tfdist.net.host_links import MOST_WORKERS, PAIR_REGION_BYTES, REGION_BYTES, HostLinks, LinkEnds


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_each_pair_of_workers_has_a_socket_of_its_own() -> None:
    with HostLinks([1, 2, 5]) as links:
        ends = [links.ends_of(worker) for worker in (1, 2, 5)]
        for one in range(3):
            for other in range(one + 1, 3):
                # Peers come in their order, without the worker itself.
                near = socket.socket(fileno=os.dup(ends[one].sockets[other - 1]))
                far = socket.socket(fileno=os.dup(ends[other].sockets[one]))
                with near, far:
                    near.send(f"{one} to {other}".encode())
                    assert far.recv(64) == f"{one} to {other}".encode()
        assert len({fd for each in ends for fd in each.sockets}) == 6


def test_the_memory_is_shared_and_nobody_can_make_it_smaller() -> None:
    with HostLinks([0, 1]) as links:
        memory = links.ends_of(0).memory
        with mmap.mmap(memory, 2 * REGION_BYTES) as one, mmap.mmap(links.ends_of(1).memory, 0) as other:
            one[5:8] = b"abc"
            assert other[5:8] == b"abc"
        for size in (0, 3 * REGION_BYTES):
            with pytest.raises(PermissionError):
                os.ftruncate(memory, size)


def test_ends_that_are_taken_outlive_the_links() -> None:
    with HostLinks([1, 2, 5], PAIR_REGION_BYTES) as links:
        ends = [links.taken_by(worker) for worker in (1, 5)]
    one, five = ends
    try:
        assert (one.worker, one.linked, five.rank) == (1, (1, 2, 5), 2)
        assert os.fstat(one.memory).st_size == 3 * PAIR_REGION_BYTES
        with mmap.mmap(one.memory, 0) as near, mmap.mmap(five.memory, 0) as far:
            near[5:8] = b"abc"
            assert far[5:8] == b"abc"
        os.write(one.sockets[1], b"hello")
        assert os.read(five.sockets[0], 64) == b"hello"
        assert os.read(one.sockets[0], 64) == b""  # Nobody has taken those of worker 2.
        assert not any(os.get_inheritable(fd) for each in ends for fd in each.descriptors)
    finally:
        for each in ends:
            each.close()


def test_nothing_is_inherited_by_itself_and_nothing_is_left() -> None:
    before = descriptors()
    with HostLinks(range(4)) as links:
        assert not any(os.get_inheritable(fd) for rank in range(4) for fd in links.ends_of(rank).descriptors)
        assert len(descriptors()) > len(before)
    assert descriptors() == before
    assert not [name for name in os.listdir("/dev/shm") if "tfdist" in name]


@pytest.mark.skipif(os.geteuid() != 0, reason="a process of another user needs root")
def test_another_user_cannot_open_the_memory() -> None:
    """It has no name, but for those that /proc gives to whoever may trace the process."""
    with HostLinks([0, 1]) as links:
        path = f"/proc/{os.getpid()}/fd/{links.ends_of(0).memory}"
        os.close(os.open(path, os.O_RDWR))
        opening = ["sh", "-c", f"exec 9<{path}"]
        stranger = subprocess.run(opening, user=65534, group=65534, extra_groups=[], capture_output=True, text=True)
    assert stranger.returncode != 0
    assert "Permission denied" in stranger.stderr


def test_too_few_descriptors_leave_none_open() -> None:
    before = descriptors()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit is on the number of a descriptor; an earlier test may have left gaps below.
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + 8, limits[1]))
    try:
        with pytest.raises(OSError) as error:
            HostLinks(range(16))
        assert error.value.errno == errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert descriptors() == before


@pytest.mark.parametrize("workers", [1, MOST_WORKERS + 1])
def test_numbers_of_workers_that_have_no_links(workers: int) -> None:
    with pytest.raises(ValueError, match=f"2 to {MOST_WORKERS} workers.* Received: {workers}"):
        HostLinks(range(workers))


def test_ends_are_handed_on_as_numbers() -> None:
    ends = LinkEnds(4, (2, 4, 7), 3, (5, 8))
    assert ends.descriptors == (3, 5, 8)
    assert ends.rank == 1
    assert LinkEnds.of(4, [2, 4, 7], ends.descriptors) == ends
