from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.order.permutation import MAX_SAMPLES, permuted


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
