"""Tests of meshes that some of the workers of a host make, with workers as threads that have real links."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from tests.unit.runtime.transport.shared_memory.linked_threads import FIRST, SECONDS, ends_of_links
from tfdist.errors import WorkerFailedError
from tfdist.net.host_links import LEAST_REGION_BYTES, PAIR_REGION_BYTES, HostLinks
from tfdist.runtime.transport.shared_memory import group_meshes
from tfdist.runtime.transport.shared_memory.array_exchange import reduce_arrays
from tfdist.runtime.transport.shared_memory.group_meshes import ANSWER, OFFER, VERDICT, GroupMeshes
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.link_mailbox import LinkMailbox, Message

A, B, C, D = range(FIRST, FIRST + 4)


def open_files() -> dict[int, str]:
    """What the descriptors of this process are, each socket by a name of its own."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # That of the folder itself.
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def open_sockets() -> set[str]:
    return {name for name in open_files().values() if name.startswith("socket:")}


class Workers:
    """Some workers of a host, as threads."""

    def __init__(self, count: int) -> None:
        self.mailboxes = {ends.worker: LinkMailbox(ends) for ends in ends_of_links(count, LEAST_REGION_BYTES)}
        self.meshes = {worker: GroupMeshes(mailbox) for worker, mailbox in self.mailboxes.items()}
        self._threads = ThreadPoolExecutor(32)

    def start(self, worker: int, group: str, workers: Sequence[int]) -> Future[HostMesh]:
        """Makes a worker's end of a mesh, in a thread."""
        return self._threads.submit(self.meshes[worker].make, group, workers, PAIR_REGION_BYTES)

    def close(self) -> None:
        for meshes in self.meshes.values():
            meshes.close()
        self._threads.shutdown()


@pytest.fixture
def make_workers() -> Iterator[Callable[[int], Workers]]:
    before = open_sockets()
    made: list[Workers] = []

    def make(count: int) -> Workers:
        made.append(Workers(count))
        return made[-1]

    yield make
    for workers in made:
        workers.close()
    assert open_sockets() == before


def assert_joined(meshes: dict[int, HostMesh], members: Sequence[int]) -> None:
    """They sum among one another."""
    arrays = {worker: np.full(5, 10**place) for place, worker in enumerate(members)}
    with ThreadPoolExecutor(len(members)) as threads:
        done = [threads.submit(reduce_arrays, meshes[each], [arrays[each]], [arrays[each]]) for each in members]
        for each in done:
            each.result(SECONDS)
    assert {worker: array.tolist() for worker, array in arrays.items()} == dict.fromkeys(
        members, [int("1" * len(members))] * 5
    )


def test_groups_that_overlap_come_in_any_order(make_workers: Callable[[int], Workers]) -> None:
    """Each worker begins with another one of its groups, and waits for all of them at once."""
    workers = make_workers(4)
    groups = {"ab": (A, B), "ba": (A, B), "bcd": (B, C, D), "abcd": (A, B, C, D), "ad": (A, D), "cd": (C, D)}
    started: dict[tuple[str, int], Future[HostMesh]] = {}
    for worker in (A, B, C, D):
        names = [name for name, members in groups.items() if worker in members]
        turned = names[worker % len(names) :] + names[: worker % len(names)]
        for name in turned:
            started[name, worker] = workers.start(worker, name, groups[name])
    meshes = {key: future.result(SECONDS) for key, future in started.items()}
    for name, members in groups.items():
        own = {worker: meshes[name, worker] for worker in members}
        assert [own[worker].rank for worker in members] == list(range(len(members)))
        assert_joined(own, members)


def test_an_offer_waits_for_a_worker_that_is_elsewhere(make_workers: Callable[[int], Workers]) -> None:
    workers = make_workers(3)
    late = [workers.start(A, "late", (A, B, C)), workers.start(C, "late", (A, B, C))]
    early = [workers.start(worker, "early", (A, B)) for worker in (A, B)]
    assert_joined(dict(zip((A, B), (each.result(SECONDS) for each in early), strict=True)), (A, B))
    assert not any(future.done() for future in late)
    own = workers.start(B, "late", (A, B, C))
    meshes = dict(zip((A, C, B), (each.result(SECONDS) for each in (*late, own)), strict=True))
    assert_joined(meshes, (A, B, C))


@pytest.mark.parametrize("ends", [A, B])
@pytest.mark.parametrize("is_waited_for", [True, False], ids=["waited for", "before"])
def test_a_worker_that_has_ended_is_named(
    make_workers: Callable[[int], Workers], ends: int, is_waited_for: bool
) -> None:
    """Whether it makes the links or is to get them; groups without it go on."""
    workers = make_workers(4)
    members = (A, B, C)
    others = [worker for worker in members if worker != ends]
    waiting = [workers.start(worker, "three", members) for worker in others] if is_waited_for else []
    workers.mailboxes[ends].close()
    waiting = waiting or [workers.start(worker, "three", members) for worker in others]
    error = f"of workers {A}, {B}, {C}, .* worker {ends} has ended"
    for each in waiting:
        with pytest.raises(WorkerFailedError, match=error):
            each.result(SECONDS)
    with pytest.raises(WorkerFailedError, match=error):
        workers.start(C, "three", members).result(SECONDS)
    left = (C, D)
    meshes = {worker: workers.start(worker, "left", left) for worker in left}
    assert_joined({worker: each.result(SECONDS) for worker, each in meshes.items()}, left)


def test_what_the_system_refuses_is_told_to_all_and_may_be_tried_again(
    make_workers: Callable[[int], Workers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the links are made, and where a mesh is made of them."""
    workers = make_workers(3)
    members = (A, B, C)

    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    def refuse_one(ends: object) -> HostMesh:
        if ends.worker == C:  # type: ignore[attr-defined]
            for descriptor in ends.descriptors:  # type: ignore[attr-defined]
                os.close(descriptor)
            refuse()
        return HostMesh(ends)  # type: ignore[arg-type]

    for name, function, refuses in (("HostLinks", refuse, A), ("_mesh_of", refuse_one, C)):
        with monkeypatch.context() as patch:
            patch.setattr(group_meshes, name, function)
            for started in [workers.start(worker, "three", members) for worker in members]:
                with pytest.raises(WorkerFailedError) as error:
                    started.result(SECONDS)
                assert (
                    f"Workers {A}, {B}, {C} cannot exchange in shared memory: the system gives worker {refuses} "
                    in (str(error.value))
                )
                assert "Cannot allocate memory" in str(error.value)
                assert "ulimit -n" in str(error.value)
    again = {worker: workers.start(worker, "three", members) for worker in members}
    assert_joined({worker: each.result(SECONDS) for worker, each in again.items()}, members)


def test_a_worker_without_descriptors_says_so(make_workers: Callable[[int], Workers]) -> None:
    """The system drops those that it cannot give; the sender plays the first worker."""
    workers = make_workers(2)
    first = workers.mailboxes[A]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with HostLinks((A, B), PAIR_REGION_BYTES) as links, first.box("two", (A, B)) as box:
        joining = workers.start(B, "two", (A, B))
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            first.send(B, "two", Message(OFFER, "", links.ends_of(B).descriptors))
            answer = box.get(timeout=SECONDS)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert answer.kind == ANSWER
        assert f"gives worker {B} no more memory or descriptors for it ([Errno 24] Too many open files)" in answer.text
        first.send(B, "two", Message(VERDICT, answer.text))
        with pytest.raises(WorkerFailedError, match="Too many open files"):
            joining.result(SECONDS)


def test_programs_that_a_worker_starts_do_not_get_the_links(make_workers: Callable[[int], Workers]) -> None:
    before = open_sockets()
    workers = make_workers(2)
    started = [workers.start(worker, "two", (A, B)) for worker in (A, B)]
    meshes = [each.result(SECONDS) for each in started]
    sockets = {fd for fd, name in open_files().items() if name in open_sockets() - before}
    memory = {fd for fd, name in open_files().items() if "memfd:tfdist" in name}
    # Those over which links are handed, and those of the mesh.
    assert len(sockets) == 4
    assert len(memory) >= len(meshes)
    assert not any(os.get_inheritable(fd) for fd in sockets | memory)
