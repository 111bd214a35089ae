"""How collectives of several workers, played in one process, round halves and wrap integers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.runtime.collectives.played_workers import play
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.communicator import Communicator

SIZES = pytest.mark.parametrize("rows", [1, 150])
"""Of few bytes, which travel with the call, and of many."""

HALVES = [("float16", [65504.0] * 3, 65504.0), ("bfloat16", [256.0, 1.0, 1.0], 86.0)]
"""A sum in float16 would be infinite, and one in bfloat16 256."""


@pytest.mark.parametrize(("dtype", "given", "mean"), HALVES)
@SIZES
def test_means_of_halves_are_rounded_once(dtype: str, given: list[float], mean: float, rows: int) -> None:
    def act(own: Communicator) -> tf.Tensor:
        return own.run(Call("all_reduce", "mean"), tf.cast(tf.fill([2 * rows], given[own.worker]), dtype))

    for found in play(3, act):
        assert found.dtype == dtype
        assert set(tf.cast(found, tf.float64).numpy()) == {mean}


SMALL_HALVES = [
    ("float16", "sum", [2048.0, 1.0, 1.0], 2050.0),
    ("bfloat16", "sum", [256.0, 1.0, 1.0], 258.0),
    ("float16", "product", [512.0, 512.0, 2.0**-10], 256.0),
    ("bfloat16", "product", [3.0, 87.0, 100.0], 26112.0),
]
"""With a rounding after each worker they would be 2048, 256, infinite and 25984."""


@pytest.mark.parametrize(("dtype", "op", "given", "wanted"), SMALL_HALVES)
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
def test_small_sums_of_halves_are_rounded_once(
    dtype: str, op: str, given: list[float], wanted: float, kind: str
) -> None:
    def act(own: Communicator) -> tf.Tensor:
        return own.run(Call(kind, op), tf.cast(tf.fill([3], given[own.worker]), dtype))

    for found in play(3, act):
        assert found.dtype == dtype
        assert set(tf.cast(found, tf.float64).numpy()) == {wanted}


def test_integers_wrap_as_they_do_on_one_worker() -> None:
    small, large = np.array([200, 100], np.uint8), np.array([2**63 + 5, 7], np.uint64)
    given = [tf.constant(small), tf.constant(large)]
    for found in play(2, lambda own: own.run(Call("all_reduce", "sum"), given)):
        assert found[0].numpy().tolist() == [144, 200]
        assert found[1].numpy().tolist() == [10, 14]
