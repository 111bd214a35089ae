from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.epoch import epoch_order, epoch_pieces, num_steps

sizes = st.integers(0, 500)
seeds = st.integers(0, 2**63)
epochs = st.integers(0, 1000)


@given(n=sizes, seed=seeds, epoch=epochs, shuffle=st.booleans())
def test_every_sample_comes_exactly_once(n: int, seed: int, epoch: int, shuffle: bool) -> None:
    order = epoch_order(n, seed, epoch, shuffle)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))


@given(n=sizes, seed=seeds, epoch=epochs)
def test_the_same_seed_gives_the_same_order(n: int, seed: int, epoch: int) -> None:
    np.testing.assert_array_equal(epoch_order(n, seed, epoch, True), epoch_order(n, seed, epoch, True))


@given(n=st.integers(30, 500), seed=seeds, epoch=epochs)
def test_another_epoch_or_seed_gives_another_order(n: int, seed: int, epoch: int) -> None:
    order = epoch_order(n, seed, epoch, True)
    assert order.tolist() != list(range(n))
    assert order.tolist() != epoch_order(n, seed, epoch + 1, True).tolist()
    assert order.tolist() != epoch_order(n, seed + 1, epoch, True).tolist()


def test_without_shuffle_every_epoch_is_in_order() -> None:
    assert [epoch_order(4, 7, epoch, False).tolist() for epoch in (0, 1)] == [[0, 1, 2, 3]] * 2


def test_the_order_is_frozen() -> None:
    """A changed order would break a resumed run, so the numbers stand here."""
    assert epoch_order(10, 7, 0, True).tolist() == [8, 4, 3, 6, 2, 1, 0, 5, 9, 7]
    assert epoch_order(10, 7, 1, True).tolist() == [7, 9, 6, 1, 4, 8, 3, 2, 5, 0]


def test_positions_are_uniform() -> None:
    """Over 6000 epochs each of 6 samples should be at each place about 1000 times (standard deviation 29)."""
    orders = np.stack([epoch_order(6, 1, epoch, True) for epoch in range(6000)])
    counts = np.stack([np.bincount(orders[:, place], minlength=6) for place in range(6)])
    assert np.abs(counts - 1000).max() < 6 * 29


@pytest.mark.parametrize(("n", "batch", "steps"), [(0, 8, 0), (1, 8, 1), (8, 8, 1), (9, 8, 2), (1797, 128, 15)])
def test_num_steps(n: int, batch: int, steps: int) -> None:
    assert num_steps(n, batch) == steps


@given(n=sizes, batch=st.integers(1, 70), workers=st.integers(1, 5), devices=st.integers(1, 3))
def test_global_batches_are_the_same_for_any_number_of_replicas(n: int, batch: int, workers: int, devices: int) -> None:
    replicas = workers * devices
    per_worker = [
        epoch_pieces(n, batch, replicas, range(w * devices, (w + 1) * devices)).reshape(-1, devices, 2)
        for w in range(workers)
    ]
    assert {len(pieces) for pieces in per_worker} == {num_steps(n, batch)}
    for step in range(num_steps(n, batch)):
        pieces = [piece for worker in per_worker for piece in worker[step].tolist()]
        lengths = [stop - start for start, stop in pieces]
        samples = [i for start, stop in pieces for i in range(start, stop)]
        assert samples == list(range(step * batch, min(n, (step + 1) * batch)))
        assert max(lengths) - min(lengths) <= 1


def test_a_batch_larger_than_all_samples_is_one_batch_of_them() -> None:
    for batch in (10, 11, 2**70):
        assert epoch_pieces(10, batch, 3, range(3)).tolist() == [[0, 4], [4, 7], [7, 10]]
