from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.epoch_order import EpochOrder, EpochSteps, num_steps

sizes = st.integers(1, 500)
seeds = st.integers(0, 2**63)
epochs = st.integers(0, 1000)


@given(n=sizes, seed=seeds, epoch=epochs, shuffle=st.booleans())
def test_every_sample_comes_exactly_once(n: int, seed: int, epoch: int, shuffle: bool) -> None:
    order = EpochOrder(n, seed, shuffle).of(epoch)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))


@given(n=sizes, seed=seeds, epoch=epochs, data=st.data())
def test_the_same_seed_gives_the_same_order_from_any_place_on(
    n: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, n))
    order = EpochOrder(n, seed, True)
    np.testing.assert_array_equal(order.at(epoch, np.arange(start, n)), EpochOrder(n, seed, True).of(epoch)[start:])


@given(n=st.integers(30, 500), seed=seeds, epoch=epochs)
def test_another_epoch_or_seed_gives_another_order(n: int, seed: int, epoch: int) -> None:
    order = EpochOrder(n, seed, True).of(epoch)
    assert order.tolist() != list(range(n))
    assert order.tolist() != EpochOrder(n, seed, True).of(epoch + 1).tolist()
    assert order.tolist() != EpochOrder(n, seed + 1, True).of(epoch).tolist()


def test_seed_and_epoch_are_not_mixed_up() -> None:
    orders = [EpochOrder(50, seed, True).of(epoch).tolist() for seed in range(4) for epoch in range(4)]
    assert len({tuple(order) for order in orders}) == 16


def test_without_shuffle_every_epoch_is_in_order() -> None:
    assert [EpochOrder(4, 7).of(epoch).tolist() for epoch in (0, 1)] == [[0, 1, 2, 3]] * 2


def test_by_default_there_is_no_shuffle_and_one_replica() -> None:
    assert EpochOrder(4) == EpochOrder(4, seed=0, shuffle=False)
    assert EpochSteps(9, 8) == EpochSteps(9, 8, num_replicas=1)


def test_an_epoch_of_nothing_has_no_pieces() -> None:
    assert EpochSteps(0, 8, 2).pieces(0, 0, range(2)).shape == (0, 2)


def test_no_sample() -> None:
    with pytest.raises(ValueError, match="Received: 0"):
        EpochOrder(0)


def test_samples_have_seeds_of_their_own_each_epoch() -> None:
    order = EpochOrder(1000, 7, True)
    samples = np.arange(1000)
    drawn = np.concatenate([order.sample_seeds(epoch, samples) for epoch in (0, 1)])
    assert (drawn.shape, drawn.dtype) == ((2000, 2), np.int32)
    assert len({tuple(seed) for seed in drawn.tolist()}) == 2000
    np.testing.assert_array_equal(order.sample_seeds(1, np.array([5, 3])), drawn[[1005, 1003]])
    bits = np.unpackbits(drawn.view(np.uint8)).reshape(-1, 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / 2000**0.5


def test_the_seeds_of_samples_are_frozen() -> None:
    """A resumed run draws what it would have drawn, with another version and on another machine, too."""
    seeds = EpochOrder(10, 7, True).sample_seeds(3, np.array([0, 1, 2**40]))
    assert seeds.tolist() == [[169872163, -793447479], [1330768027, 277937945], [368784273, 705198241]]


@pytest.mark.parametrize(("n", "batch", "steps"), [(0, 8, 0), (1, 8, 1), (8, 8, 1), (9, 8, 2), (1797, 128, 15)])
def test_num_steps(n: int, batch: int, steps: int) -> None:
    assert num_steps(n, batch) == len(EpochSteps(n, batch)) == steps


@given(n=sizes, batch=st.integers(1, 70), workers=st.integers(1, 5), devices=st.integers(1, 3), data=st.data())
def test_global_batches_are_the_same_for_any_number_of_replicas(
    n: int, batch: int, workers: int, devices: int, data: st.DataObject
) -> None:
    steps = EpochSteps(n, batch, workers * devices)
    begin = data.draw(st.integers(0, len(steps)))
    per_worker = [
        steps.pieces(begin, len(steps), range(w * devices, (w + 1) * devices)).reshape(-1, devices, 2)
        for w in range(workers)
    ]
    assert {len(pieces) for pieces in per_worker} == {len(steps) - begin}
    all_pieces = steps.pieces(0, len(steps), range(workers * devices))
    assert steps.every_replica_has_samples == bool((all_pieces[:, 0] < all_pieces[:, 1]).all())
    for step in range(begin, len(steps)):
        pieces = [piece for worker in per_worker for piece in worker[step - begin].tolist()]
        lengths = [stop - start for start, stop in pieces]
        samples = [i for start, stop in pieces for i in range(start, stop)]
        assert samples == list(range(step * batch, min(n, (step + 1) * batch)))
        assert max(lengths) - min(lengths) <= 1
        assert max(lengths) <= steps.largest_piece(range(workers * devices))


def test_a_batch_larger_than_all_samples_is_one_batch_of_them() -> None:
    for batch in (10, 11, 2**70):
        steps = EpochSteps(10, batch, 3)
        assert steps.pieces(0, 1, range(3)).tolist() == [[0, 4], [4, 7], [7, 10]]
        assert steps.largest_piece(range(3)) == 4


def test_the_middle_of_a_huge_epoch() -> None:
    steps = EpochSteps(10**12, 1000, 2)
    (piece,) = steps.pieces(10**8, 10**8 + 1, [1]).tolist()
    assert piece == [10**11 + 500, 10**11 + 1000]
    assert len(set(EpochOrder(10**12, 3, True).at(0, np.arange(*piece)).tolist())) == 500
