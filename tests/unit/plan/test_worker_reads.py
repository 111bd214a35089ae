from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.sources import source
from tfdist.order.epoch_order import EpochSteps
from tfdist.plan.worker_reads import worker_reads


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    batch_size=st.integers(1, 90),
    workers=st.integers(1, 5),
    shuffle=st.booleans(),
)
def test_what_a_worker_reads_is_what_the_order_gives_it(
    counts: list[int], batch_size: int, workers: int, shuffle: bool
) -> None:
    file_of = np.repeat(np.arange(len(counts)), counts)
    for reading in worker_reads(source(*counts), batch_size, workers, shuffle):
        steps = EpochSteps(sum(counts), batch_size, workers)
        pieces = steps.pieces(0, len(steps), [reading.worker])
        samples = np.concatenate([np.arange(*piece) for piece in pieces])
        assert reading.samples == len(samples)
        if not shuffle:
            expected = np.bincount(file_of[samples], minlength=len(counts))
            assert reading.file_samples.tolist() == expected.tolist()
            assert reading.file_bytes.tolist() == (100 * expected).tolist()
            assert reading.files.tolist() == np.flatnonzero(expected).tolist()


def test_shuffled_every_worker_reads_its_part_of_each_file() -> None:
    first, second = worker_reads(source(300, 100), batch_size=4, workers=2, shuffle=True)
    assert first.file_bytes.tolist() == second.file_bytes.tolist() == [15_000, 5_000]
    assert (first.samples, first.file_samples.tolist(), first.bytes) == (200, [150, 50], 20_000)


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_file_that_is_read_whole_is_read_by_every_worker(shuffle: bool) -> None:
    found = worker_reads(source(300, whole=True), batch_size=4, workers=3, shuffle=shuffle)
    assert [(reading.samples, reading.bytes) for reading in found] == [(150, 30_000), (75, 30_000), (75, 30_000)]
