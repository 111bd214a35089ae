from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.data.sequential.sequential_reader import SequentialReader
from tfdist.errors import DataError
from tfdist.order.epoch_order import EpochSteps
from tfdist.order.sequential_order import LaneOrder, Lanes


class Streams:
    """Files whose samples are pairs of file and number; counts how often each is opened and how far it is read."""

    def __init__(self, counts: tuple[int, ...], chunk: int = 3) -> None:
        self.counts, self.chunk = counts, chunk
        self.opened: list[int] = []
        self.closed: list[int] = []

    def stream(self, file: int) -> Iterator[list[tuple[int, int]]]:
        self.opened.append(file)
        try:
            for start in range(0, self.counts[file], self.chunk):
                yield [(file, n) for n in range(start, min(start + self.chunk, self.counts[file]))]
        finally:
            self.closed.append(file)

    def reader(self, lanes: int, window: int) -> SequentialReader[tuple[int, int]]:
        names = [f"file {file}" for file in range(len(self.counts))]
        return SequentialReader(self.counts, names, self.stream, lanes, window)


def expected(counts: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(file, number) for file, count in enumerate(counts) for number in range(count)]


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=7).filter(any),
    batch=st.integers(1, 30),
    most=st.integers(1, 4),
    buffer=st.integers(1, 40),
    workers=st.integers(1, 3),
    begin=st.integers(0, 3),
)
def test_every_worker_reads_its_pieces_and_each_file_once(
    counts: list[int], batch: int, most: int, buffer: int, workers: int, begin: int
) -> None:
    files = tuple(counts)
    lanes = Lanes.of(files, most, buffer)
    order, steps = LaneOrder(lanes, batch, 7, True), EpochSteps(sum(files), batch, workers)
    for worker in range(workers):
        streams = Streams(files)
        reader = streams.reader(lanes.number, lanes.window)
        for piece in steps.pieces(min(begin, len(steps) - 1), len(steps), [worker]):
            numbers = order.at(0, np.arange(*piece))
            assert reader.read(numbers) == [expected(files)[number] for number in numbers]
        assert len(streams.opened) == len(set(streams.opened))


def test_what_comes_against_the_order_is_found_all_the_same() -> None:
    streams = Streams((9, 9))
    reader = streams.reader(1, 1)
    for number in (12, 3, 16, 2, 10, 2):
        assert reader.read(np.array([number])) == [expected((9, 9))[number]]
    assert streams.opened.count(0) == 2


def test_sample_0_does_not_turn_its_file_back() -> None:
    """Empty batches are filled up with it."""
    streams = Streams((30,))
    reader = streams.reader(1, 4)
    assert reader.read(np.array([0])) == [(0, 0)]
    reader.read(np.array([20, 21]))
    assert reader.read(np.array([0, 0])) == [(0, 0)] * 2
    reader.read(np.array([22, 22]))
    assert streams.opened == [0]


class Sample:
    """One that can be weakly referred to."""


class Living:
    """A file of samples that are counted while anything holds them."""

    def __init__(self, chunk: int) -> None:
        self.alive = self.most = 0
        self._chunk = chunk

    def stream(self, _: int) -> Iterator[list[Sample]]:
        while True:
            yield [self._born() for _ in range(self._chunk)]

    def _born(self) -> Sample:
        sample = Sample()
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(sample, self._died)
        return sample

    def _died(self) -> None:
        self.alive -= 1


def test_little_is_held_however_long_a_file_is() -> None:
    living = Living(chunk=3)
    reader = SequentialReader((10_000,), ["a"], living.stream, 1, 8)
    for number in range(5, 10_000, 50):
        reader.read(np.array([number]))
        assert living.alive <= 8 + 4 + 3


def test_what_is_read_over_is_not_held() -> None:
    """A training that resumes in the middle of a file reads all that was before."""
    living = Living(chunk=1)
    reader = SequentialReader((10_000,), ["a"], living.stream, 1, 8)
    assert len(reader.read(np.array([9000, 9003]))) == 2
    assert living.most <= 8 + 4 * 2 + 4
    # What is asked for together, however far apart, is found.
    assert len(reader.read(np.array([9999, 9010, 9500]))) == 3


def test_files_that_are_done_with_are_closed() -> None:
    streams = Streams((2,) * 10)
    reader = streams.reader(2, 1)
    for number in range(20):
        reader.read(np.array([number]))
    assert len(streams.opened) - len(streams.closed) <= 4


def test_no_sample() -> None:
    assert Streams((3,)).reader(1, 1).read(np.array([], np.int64)) == []


def test_a_file_that_ends_before_its_end() -> None:
    streams = Streams((9,))
    reader = streams.reader(1, 1)
    streams.counts = (5,)
    with pytest.raises(DataError, match="file 0 ends after 5 samples. Expected 9"):
        reader.read(np.array([7]))


def test_an_error_is_raised_again_when_samples_are_requested_again() -> None:
    """Batches are read side by side, and any of them may be the one whose error is shown."""

    def stream(file: int) -> Iterator[list[int]]:
        yield [0, 1]
        raise DataError("record 2 is damaged")

    reader = SequentialReader((9,), ["a"], stream, 1, 1)
    for number in (5, 6):
        with pytest.raises(DataError, match="record 2 is damaged"):
            reader.read(np.array([number]))
