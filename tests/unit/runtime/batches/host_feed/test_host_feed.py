"""Tests of a worker's channels, without TensorFlow."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.runtime.batches.host_feed.channels import batch, descriptors, feeds, open_all, slicer_of
from tests.unit.runtime.batches.host_feed.test_batch_channel import drawing_threads
from tfdist.errors import WorkerFailedError
from tfdist.order import epoch_order


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8])
@pytest.mark.parametrize(("workers", "each"), [(2, 1), (3, 1), (2, 2)])
def test_pieces_are_the_rows_of_each_replica(rows: int, workers: int, each: int) -> None:
    arrays, replicas = batch(1, rows), workers * each
    slices = [
        piece
        for worker in range(workers)
        for piece in slicer_of(worker, workers, each).slices(arrays, 9, np.array)
    ]
    for replica, (features, labels, samples, first, total, counting, largest) in enumerate(slices):
        start, stop = epoch_order.bounds(rows, replicas, replica)
        assert (samples, first, total, counting, largest) == (stop - start, start, rows, min(rows, replicas), 9)
        expected = slice(start, stop) if stop > start else slice(0, 1)
        np.testing.assert_array_equal(features, arrays[0][expected])
        np.testing.assert_array_equal(labels, arrays[1][expected])


def test_batches_that_no_replica_counts_have_one_number_less() -> None:
    slicer = slicer_of(0, 2)
    counting = slicer.slices(batch(0, 4), 4, np.array)[0]
    without = type(slicer)(2, [0], (True, False), False).slices(batch(0, 4), 4, np.array)[0]
    assert len(without) == len(counting) - 1
    assert len(without[0]) == 2 and len(without[1]) == 4  # Of what has no rows, all.


def test_the_workers_of_a_host_get_their_pieces_of_what_one_draws() -> None:
    before = descriptors()
    with feeds([2, 3, 5]) as made:
        assert [feed.draws for feed in made] == [True, False, False]
        channels = open_all(made, [batch(0, 6), batch(1, 4)])
        for number, rows in enumerate([6, 4]):
            taken = [channel.next_slice()[1] for channel in channels]
            np.testing.assert_array_equal(np.concatenate(taken), batch(number, rows)[1])
        for channel in channels:
            with pytest.raises(StopIteration):
                channel.next_slice()
            assert channel.failure is None
            channel.close()
    assert descriptors() == before
    assert drawing_threads() == []


def test_several_channels_are_open_at_once() -> None:
    with feeds([0, 1]) as made:
        first, second = open_all(made, (batch(n, 4) for n in range(9))), open_all(made, [batch(7, 4)])
        for channel in (*first, *second, *first):
            channel.next_slice()
        assert first[0].next_slice()[1][0] == 2000
        for channel in (*first, *second):
            channel.close()


def test_a_channel_of_which_nothing_is_read_draws_nothing() -> None:
    drawn = []

    def counted() -> Iterator[list[NDArray]]:
        drawn.append(1)
        yield batch(0, 4)

    with feeds([0, 1]) as made:
        for channel in open_all(made, counted()):
            channel.close()
    assert drawn == []


def test_the_outermost_call_closes_what_was_abandoned() -> None:
    before = descriptors()
    with feeds([0, 1]) as made:
        for feed in made:
            assert not feed.is_in_call
        with made[0].calling(), made[1].calling():
            with made[0].calling(), made[1].calling():
                channels = open_all(made, (batch(n, 4) for n in range(10**9)))
            for channel in channels:
                channel.next_slice()
            assert len(drawing_threads()) == 1
        assert drawing_threads() == []
        with pytest.raises(StopIteration):
            channels[1].next_slice()
    assert descriptors() == before


def test_all_get_the_same_error() -> None:
    def failing() -> Iterator[list[NDArray]]:
        yield batch(0, 4)
        raise RuntimeError("sample 5 is broken")

    with feeds([0, 1]) as made:
        channels = open_all(made, failing())
        for channel in channels:
            channel.next_slice()
            for _ in range(2):
                with pytest.raises(StopIteration):
                    channel.next_slice()
            assert isinstance(channel.failure, ValueError)
            assert str(channel.failure) == "sample 5 is broken"
        for channel in channels:
            channel.close()


def test_a_channel_is_closed_while_a_thread_waits_for_its_next_batch() -> None:
    gate = threading.Event()

    def gated() -> Iterator[list[NDArray]]:
        gate.wait(60)
        yield batch(0, 4)

    with feeds([0, 1]) as made:
        channels = open_all(made, gated())
        waiting = threading.Thread(target=lambda: pytest.raises(StopIteration, channels[1].next_slice))
        waiting.start()
        channels[1].close()
        waiting.join(20)
        assert not waiting.is_alive()
        gate.set()
        channels[0].close()


def test_the_end_of_the_drawing_worker_is_an_error_of_the_others() -> None:
    with feeds([0, 1]) as made:
        channels = open_all(made, (batch(n, 4) for n in range(9)))
        channels[0].next_slice()
        channels[0].close()
        made[0].close()
        with pytest.raises(StopIteration):
            while True:
                channels[1].next_slice()
        assert isinstance(channels[1].failure, WorkerFailedError)
        with pytest.raises(WorkerFailedError, match="worker 0 has ended"):
            open_all(made[1:], [])
        with pytest.raises(WorkerFailedError, match="worker 0 has ended"):
            made[1].from_drawer(b"states")
        channels[1].close()


def test_bytes_of_the_drawing_worker_reach_all() -> None:
    with feeds([0, 1, 2]) as made:
        assert [feed.from_drawer(bytes([place] * 20_000)) for place, feed in enumerate(made)] == [bytes(20_000)] * 3
