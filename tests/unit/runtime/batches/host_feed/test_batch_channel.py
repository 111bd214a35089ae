"""Tests of the two ends of a channel, without TensorFlow."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers.waiting import until
from tests.unit.runtime.batches.host_feed.channels import DTYPES, batch, descriptors, receivers_of, rows_of, socket_pair
from tfdist.errors import WorkerFailedError
from tfdist.runtime.batches.host_feed import drawing
from tfdist.runtime.batches.host_feed.batch_notes import (
    MOST_ARRAYS,
    MOST_BYTES,
    BatchNote,
    EndNote,
    FailureNote,
    decode,
    encode,
)
from tfdist.runtime.batches.host_feed.drawing import SLOTS, BatchSender
from tfdist.runtime.batches.host_feed.host_feed import Abandoned, BatchReceiver, SharedBatch

BOUND = 20
"""Seconds."""


def take(receiver: BatchReceiver) -> SharedBatch:
    """The next batch, copied and released."""
    came = receiver.receive()
    assert isinstance(came, SharedBatch)
    copy = SharedBatch(tuple(array.copy() for array in came.arrays), came.largest, came.slot)
    receiver.release(came)
    return copy


def drawing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tfdist-drawing"]


@pytest.mark.parametrize("sizes", [[4, 4, 4, 1], [1, 5, 3, 900, 2], [0, 2]], ids=["equal", "growing", "empty"])
@pytest.mark.parametrize("readers", [1, 3])
def test_each_reader_gets_all_batches_in_order(sizes: list[int], readers: int) -> None:
    before = descriptors()
    with receivers_of((batch(n, rows) for n, rows in enumerate(sizes)), readers) as (_, receivers):
        for number, rows in enumerate(sizes):
            for receiver in receivers:
                came = take(receiver)
                assert came.largest == max(sizes[: number + 1])
                for array, expected in zip(came.arrays, batch(number, rows), strict=True):
                    np.testing.assert_array_equal(array, expected, strict=True)
        assert [receiver.receive() for receiver in receivers] == [EndNote()] * readers
    assert descriptors() == before
    assert drawing_threads() == []


def test_scalars_and_small_dtypes_keep_their_place() -> None:
    arrays = [np.array(2.5), np.array([True, False]), np.arange(3, dtype=np.int8), np.ones([2, 0], np.float32)]
    near, far = socket_pair()
    sender, receiver = BatchSender([near]), BatchReceiver(far, [array.dtype for array in arrays], 0)
    try:
        sender.send(arrays, 2)
        came = receiver.receive()
        assert isinstance(came, SharedBatch)
        for array, expected in zip(came.arrays, arrays, strict=True):
            np.testing.assert_array_equal(array, expected, strict=True)
            assert not array.flags.writeable
    finally:
        sender.close()
        receiver.close()


def test_the_drawing_is_bounded_by_the_slowest_reader() -> None:
    drawn: list[int] = []

    def endless() -> Iterator[list[NDArray]]:
        while True:
            drawn.append(len(drawn))
            yield batch(drawn[-1], 2)

    with receivers_of(endless(), 2) as (_, (slow, fast)):
        for _ in range(SLOTS):
            take(fast)
        until(lambda: len(drawn) == SLOTS + 1, timeout=BOUND)
        time.sleep(0.05)  # Nothing tells that a thread does nothing more.
        assert len(drawn) == SLOTS + 1
        take(slow)
        until(lambda: len(drawn) == SLOTS + 2, timeout=BOUND)
    assert drawing_threads() == []


def test_what_lies_in_memory_stays_until_it_is_released() -> None:
    with receivers_of((batch(n, 2) for n in range(9)), 1) as (_, (receiver,)):
        held = receiver.receive()
        assert isinstance(held, SharedBatch)
        take(receiver)
        time.sleep(0.05)
        np.testing.assert_array_equal(held.arrays[1], batch(0, 2)[1])


def test_an_error_comes_where_the_next_batch_was_due() -> None:
    def failing() -> Iterator[list[NDArray]]:
        yield batch(0, 2)
        yield batch(1, 2)
        raise ValueError("no third" + "!" * 100_000)

    with receivers_of(failing(), 2) as (_, receivers):
        for receiver in receivers:
            assert take(receiver).arrays[1][0] == 0
            assert take(receiver).arrays[1][0] == 1000
            came = receiver.receive()
            assert isinstance(came, FailureNote)
            assert came.code == 3
            assert came.text.startswith("no third!!!") and len(came.text) < 10_000


def test_the_end_of_the_own_reader_ends_the_drawing_and_what_was_sent_stays_readable() -> None:
    endless = (batch(n, 2) for n in range(10**9))
    with receivers_of(endless, 2) as (drawing, (other, own)):
        take(own)
        own.abandon()
        own._link.close()
        drawing.end()
        assert drawing_threads() == []
        assert take(other).arrays[1][0] == 0
        assert take(other).arrays[1][0] == 1000
        with pytest.raises(WorkerFailedError, match="worker 0 draws .* has ended, or has left"):
            while True:
                take(other)


def test_what_was_sent_before_a_hang_up_is_read_though_the_sender_has_not_heard_the_reader() -> None:
    """The system then tells of an error first, and of what came before it afterwards."""
    near, far = socket_pair()
    sender, receiver = BatchSender([near]), BatchReceiver(far, DTYPES, 0)
    sender.send(batch(0, 2), 2)
    sender.send(batch(1, 2), 2)
    take(receiver)
    sender.end()
    sender.close()
    assert take(receiver).arrays[1][0] == 1000
    assert receiver.receive() == EndNote()
    receiver.close()


def test_a_reader_that_leaves_holds_nobody_up() -> None:
    with receivers_of((batch(n, 2) for n in range(20)), 2) as (_, (leaving, own)):
        take(leaving)
        leaving._link.close()
        assert [take(own).arrays[1][0] for _ in range(20)] == [1000 * n for n in range(20)]
        assert own.receive() == EndNote()


def test_a_reader_that_waits_is_told_to_leave() -> None:
    near, far = socket_pair()
    receiver = BatchReceiver(far, DTYPES, 0)
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(Abandoned):
            receiver.receive()
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    receiver.abandon()
    assert ended.wait(BOUND)
    thread.join()
    receiver.close()
    near.close()


def test_a_system_without_memory_is_an_error_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(drawing, "shared_memory", refuse)
    with receivers_of([batch(0, 2)], 2) as (_, receivers):
        for receiver in receivers:
            came = receiver.receive()
            assert isinstance(came, FailureNote)
            assert "Cannot allocate memory" in came.text


def test_notes_of_many_arrays_and_of_long_errors_have_room() -> None:
    shapes = (((2**31 - 1,) * 8),) * MOST_ARRAYS
    for note in (BatchNote(1, 2**40, shapes), FailureNote(3, "\N{SNOWMAN}" * 100_000)):
        message = encode(note)
        assert len(message) <= MOST_BYTES
        assert type(decode(message)) is type(note)
    assert decode(encode(BatchNote(1, 2**40, shapes))) == BatchNote(1, 2**40, shapes)
    assert decode(encode(FailureNote(None, "short"))) == FailureNote(None, "short")


def test_the_death_of_the_drawing_process_is_seen_at_once() -> None:
    near, far = socket_pair()
    child = os.fork()
    if child == 0:
        try:
            far.close()
            sender = BatchSender([near])
            for number in range(3):
                sender.send(batch(number, 2), rows_of(batch(0, 2)))
        finally:
            os._exit(1)
    near.close()
    receiver = BatchReceiver(far, DTYPES, 5)
    try:
        assert take(receiver).arrays[1][0] == 0
        os.kill(child, signal.SIGKILL)
        with pytest.raises(WorkerFailedError, match="worker 5 draws"):
            while True:
                take(receiver)
    finally:
        receiver.close()
        os.waitpid(child, 0)
