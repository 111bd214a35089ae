"""Eager collectives of some of the workers in shared memory, with workers as threads that have real links."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import UsageError
from tfdist.launch.worker.worker_links import SETS
from tfdist.net.host_links import HostLinks
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.communicator import Communicator
from tfdist.runtime.collectives.wire.engines import SharedMemoryEngine
from tfdist.runtime.collectives.wire.groups import Group
from tfdist.runtime.transport.shared_memory.shared_memory import SharedMemory

SECONDS = 30.0
LARGE = 200_003
SUM = Call("all_reduce", "sum")


def play(workers: int, act: Callable[[Communicator], Any]) -> list[Any]:
    """What each of some workers gets from `act`."""
    sets = []
    for size in SETS:
        with HostLinks(range(workers), size) as links:
            sets.append([links.taken_by(worker) for worker in range(workers)])
    shared = [SharedMemory.over([ends[worker] for ends in sets]) for worker in range(workers)]
    communicators = [Communicator(worker, workers, SharedMemoryEngine(each)) for worker, each in enumerate(shared)]
    with ThreadPoolExecutor(workers) as threads:
        acts = [threads.submit(act, communicator) for communicator in communicators]
        try:
            return [done.result(SECONDS) for done in acts]
        finally:
            for each in shared:
                each.close()


def value(worker: int, size: int = LARGE) -> tf.Tensor:
    return tf.cast((np.arange(size) + 3 * worker) % 7, tf.float32)


def summed(workers: tuple[int, ...], size: int = LARGE) -> np.ndarray:
    return np.sum([value(worker, size) for worker in workers], 0)


@pytest.mark.parametrize("workers", [3, 4])
def test_groups_that_overlap_are_used_in_any_order(workers: int) -> None:
    """Each worker begins with another one of its groups, of which all calls are under way at once."""
    groups = [(0, 1), (1, 2), (0, 2), (0, 1, 2), tuple(range(workers)), (workers - 1,)]

    def act(own: Communicator) -> dict[tuple[int, ...], list[np.ndarray]]:
        members = [group for group in groups if own.worker in group]
        turned = members[own.worker % len(members) :] + members[: own.worker % len(members)]
        handles = {
            group: [own.run(SUM, value(own.worker, size), Group(group), async_op=True) for size in (3, LARGE)]
            for group in turned
        }
        return {group: [handle.wait(SECONDS).numpy() for handle in found] for group, found in handles.items()}

    for worker, found in enumerate(play(workers, act)):
        assert set(found) == {group for group in groups if worker in group}
        for group, totals in found.items():
            for total, size in zip(totals, (3, LARGE), strict=True):
                np.testing.assert_array_equal(total, summed(group, size))


def test_two_workers_send_to_one_another_at_once_beside_a_group_of_them() -> None:
    def act(own: Communicator) -> tuple[list[np.ndarray], np.ndarray]:
        if own.worker == 1:
            return [], np.zeros(0)
        peer = 2 - own.worker
        total = own.run(SUM, value(own.worker), Group((0, 2)), async_op=True)
        sent = [own.send(value(own.worker, size), peer, async_op=True) for size in (LARGE, 5)]
        received = [own.receive(peer, None).numpy() for _ in sent]
        for handle in sent:
            handle.wait(SECONDS)
        return received, total.wait(SECONDS).numpy()

    first, _, last = play(3, act)
    for worker, (received, total) in ((2, first), (0, last)):
        np.testing.assert_array_equal(received[0], value(worker))
        np.testing.assert_array_equal(received[1], value(worker, 5))
        np.testing.assert_array_equal(total, summed((0, 2)))


@pytest.mark.parametrize("kind", ["all_gather", "all_to_all", "reduce_scatter", "broadcast", "gather", "scatter"])
def test_every_collective_of_a_group(kind: str) -> None:
    size = 3 * LARGE
    members = (0, 2, 3)

    def act(own: Communicator) -> Any:
        if own.worker not in members:
            return None
        call = Call(
            kind,  # type: ignore[arg-type]
            "max" if kind == "reduce_scatter" else None,
            root=2 if kind in ("broadcast", "gather", "scatter") else None,
        )
        found = own.run(call, value(own.worker, size), Group(members))
        return None if found is None else found.numpy()

    rows = np.stack([value(worker, size).numpy() for worker in members])
    found = play(4, act)
    for place, worker in enumerate(members):
        part = slice(place * LARGE, (place + 1) * LARGE)
        wanted = {
            "all_gather": rows,
            "gather": rows if worker == 2 else None,
            "all_to_all": np.concatenate([row[part] for row in rows]),
            "reduce_scatter": rows.max(0)[part],
            "broadcast": rows[1],
            "scatter": rows[1][part],
        }[kind]
        np.testing.assert_array_equal(found[worker], wanted)


def test_the_gradient_of_a_sum_over_a_group() -> None:
    members = (0, 2)

    def act(own: Communicator) -> np.ndarray | None:
        if own.worker not in members:
            return None
        given = value(own.worker, 1000)
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = tf.reduce_sum(own.run(SUM, given, Group(members)) * value(own.worker + 1, 1000))
        return tape.gradient(loss, given).numpy()

    found = play(3, act)
    for worker in members:
        np.testing.assert_array_equal(found[worker], summed((1, 3), 1000))


def test_calls_of_a_group_that_differ_are_named_and_it_goes_on() -> None:
    def act(own: Communicator) -> tuple[str, float]:
        if own.worker == 1:
            return "", 0.0
        with pytest.raises(UsageError) as error:
            own.run(SUM, tf.ones([3 + own.worker]), Group((0, 2)))
        return str(error.value), float(own.run(SUM, float(own.worker + 1), Group((0, 2))))

    for said, total in play(3, act)[::2]:
        assert "float32 of shape (3,) on worker 0; float32 of shape (5,) on worker 2" in said
        assert total == 4.0
