""""""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.epoch_order import MAX_SAMPLES, EpochOrder, EpochSteps, bounds, num_steps, permuted


def whole(num_samples: int, name: str = "") -> np.ndarray:
    return permuted(np.arange(num_samples), num_samples, name)


@pytest.mark.parametrize("num_samples", [*range(1, 130), 1000, 1023, 1024, 1025, 40_000])
def test_every_place_is_taken_once(num_samples: int) -> None:
    order = whole(num_samples)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(num_samples))


@given(num_samples=st.integers(1, MAX_SAMPLES), seed=st.integers(0, 2**32), data=st.data())
def test_any_places_of_any_number_of_samples(num_samples: int, seed: int, data: st.DataObject) -> None:
    """Nothing is computed but what is asked for, and two places never have one sample."""
    places = np.array(data.draw(st.lists(st.integers(0, num_samples - 1), unique=True, max_size=50)), np.int64)
    samples = permuted(places, num_samples, str(seed))
    assert len(set(samples.tolist())) == len(places)
    assert all(0 <= sample < num_samples for sample in samples.tolist())
    for place, sample in zip(places.tolist()[:3], samples.tolist(), strict=False):
        assert permuted(np.array([[place]]), num_samples, str(seed)).tolist() == [[sample]]


def test_memory_does_not_grow_with_the_number_of_samples() -> None:
    tracemalloc.start()
    permuted(np.arange(10**12 - 100, 10**12), 10**12, "")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("num_samples", [0, -1, MAX_SAMPLES + 1])
def test_impossible_sizes(num_samples: int) -> None:
    with pytest.raises(ValueError, match=f"Received: {num_samples}"):
        permuted(np.empty(0, np.int64), num_samples, "")


def test_the_numbers_are_frozen() -> None:
    """Another machine or version of numpy that gave others would break a resumed run, so they stand here."""
    assert whole(10, "seed 7, epoch 0").tolist() == [7, 4, 6, 5, 0, 1, 8, 9, 2, 3]
    assert permuted(np.array([0, 1, 10**12 - 1]), 10**12, "x").tolist() == [450517089272, 602481715928, 311058974764]


# Is it random? Chi-square with fixed names: the bounds are five standard deviations from what chance gives.


def surprise(counts: np.ndarray) -> float:
    """How many standard deviations the chi-square statistic of counts lies from its mean, if all are as likely."""
    expected = counts.sum() / counts.size
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return (statistic - (counts.size - 1)) / math.sqrt(2 * (counts.size - 1))


@pytest.mark.parametrize("num_samples", [2, 3, 4, 5])
def test_all_permutations_of_few_samples_are_as_likely(num_samples: int) -> None:
    numbers = {order: number for number, order in enumerate(itertools.permutations(range(num_samples)))}
    drawn = [numbers[tuple(whole(num_samples, str(name)).tolist())] for name in range(10 * len(numbers))]
    assert surprise(np.bincount(drawn, minlength=len(numbers))) < 5


@pytest.mark.parametrize("num_samples", [6, 7, 8, 9, 10])
def test_every_sample_is_as_likely_at_every_place_and_after_every_other(num_samples: int) -> None:
    orders = np.stack([whole(num_samples, str(name)) for name in range(800)])
    at_place = np.stack([np.bincount(column, minlength=num_samples) for column in orders.T])
    assert abs(surprise(at_place)) < 5
    steps = (np.diff(orders, axis=1) % num_samples).reshape(-1)
    assert abs(surprise(np.bincount(steps, minlength=num_samples)[1:])) < 5


@pytest.mark.parametrize("num_samples", [1000, 4096, 10**12])
def test_neighbours_are_not_alike(num_samples: int) -> None:
    """Serial correlations of a large order, and between the orders of two names, are those of chance."""
    places = np.arange(min(num_samples, 50_000))
    one, other = (permuted(places, num_samples, name) / num_samples for name in ("seed 1, epoch 0", "seed 1, epoch 1"))
    limit = 5 / math.sqrt(len(places))
    for lag in (1, 2, 3, 32, 499):
        assert abs(np.corrcoef(one[:-lag], one[lag:])[0, 1]) < limit
    assert abs(np.corrcoef(one, other)[0, 1]) < limit
    assert abs(np.corrcoef(one, places)[0, 1]) < limit


@pytest.mark.parametrize("num_samples", [10_000, 10**12])
def test_batches_are_spread_over_all_samples(num_samples: int) -> None:
    tenths = permuted(np.arange(10_000), num_samples, "a") * 10 // num_samples
    batches = tenths[:8000].reshape(-1, 40)
    assert abs(surprise(np.apply_along_axis(np.bincount, 0, batches, minlength=10).sum(axis=1))) < 5
    per_batch = np.stack([np.bincount(batch, minlength=10) for batch in batches])
    assert abs(per_batch.var() / (40 * 0.1 * 0.9) - 1) < 0.15, "neither more even nor less than a random draw"


def test_fixed_points_and_pairs_are_those_of_chance() -> None:
    orders = np.stack([whole(64, str(name)) for name in range(2000)])
    fixed = (orders == np.arange(64)).sum(axis=1)
    assert abs(fixed.mean() - 1) < 5 / math.sqrt(2000)
    neighbours = (np.abs(np.diff(orders, axis=1)) == 1).sum(axis=1)
    assert abs(neighbours.mean() - 2 * 63 / 64) < 5 * math.sqrt(2 / 2000)


def test_both_parities_are_drawn() -> None:
    """A network whose rounds are all even permutations would never give the others."""
    for num_samples in (4, 9, 16, 25):
        odd = sum(is_odd(whole(num_samples, str(name))) for name in range(200))
        assert abs(odd - 100) < 5 * 7


def is_odd(order: np.ndarray) -> bool:
    matrix = np.zeros((len(order), len(order)))
    matrix[np.arange(len(order)), order] = 1
    return bool(np.linalg.det(matrix) < 0)


@pytest.mark.parametrize(
    ("n", "parts", "expected"),
    [
        (0, 3, [(0, 0), (0, 0), (0, 0)]),
        (1, 3, [(0, 1), (1, 1), (1, 1)]),  # fewer samples than replicas: replica 0 has the one
        (2, 3, [(0, 1), (1, 2), (2, 2)]),
        (32, 1, [(0, 32)]),
        (32, 2, [(0, 16), (16, 32)]),
        (32, 3, [(0, 11), (11, 22), (22, 32)]),
        (6, 4, [(0, 2), (2, 3), (3, 5), (5, 6)]),  # the odd ones out are spread, so that workers' shares are even too
    ],
)
def test_bounds(n: int, parts: int, expected: list[tuple[int, int]]) -> None:
    assert [bounds(n, parts, k) for k in range(parts)] == expected


@given(n=st.integers(0, 10_000), parts=st.integers(1, 100))
def test_pieces_cover_the_batch_in_order_and_are_even(n: int, parts: int) -> None:
    pieces = [bounds(n, parts, k) for k in range(parts)]
    sizes = [stop - start for start, stop in pieces]
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(n))
    assert max(sizes) - min(sizes) <= 1
    assert sizes[0] == max(sizes)


@given(n=st.integers(0, 10_000), workers=st.integers(1, 20), devices=st.integers(1, 8))
def test_a_worker_reads_the_same_samples_whatever_its_number_of_devices(n: int, workers: int, devices: int) -> None:
    for worker in range(workers):
        first, _ = bounds(n, workers * devices, worker * devices)
        _, last = bounds(n, workers * devices, worker * devices + devices - 1)
        assert (first, last) == bounds(n, workers, worker)


@pytest.mark.parametrize(("n", "parts", "k"), [(-1, 1, 0), (1, 0, 0), (1, 2, 2), (1, 2, -1)])
def test_arguments_out_of_range_are_refused(n: int, parts: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"n={n}, parts={parts}, k={k}"):
        bounds(n, parts, k)


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
