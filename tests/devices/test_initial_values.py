"""First values of a shard of a weight: those that one device gives it there, whatever the cut."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.base.stored_values import read_shard
from tfdist.keras_repairs.draw_slices import initial_values
from tfdist.keras_repairs.draw_slices.initial_values import InitialValues, are_made_in_parts
from tfdist.keras_repairs.install import install
from tfdist.sharding.axis_cut import AxisCut, BlockCut
from tfdist.sharding.cut import evenly, rows_evenly

initializers = keras.initializers

INITIALIZERS = [
    initializers.RandomUniform(seed=7),
    initializers.RandomNormal(seed=7),
    initializers.TruncatedNormal(seed=7),
    initializers.HeNormal(seed=7),
    initializers.GlorotUniform(seed=7),
    initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal", seed=7),
    initializers.Ones(),
    initializers.Zeros(),
    initializers.Constant(3.0),
]

CUTS = {
    "rows": AxisCut((11, 4, 3), 0, 3),
    "heads": AxisCut((5, 8, 3), 1, 3),
    "columns": AxisCut((6, 10), 1, 4),
    "blocks": BlockCut((7, 9), (0, 1), (2, 3)),
    "vector": AxisCut((7,), 0, 2),
    "more workers than rows": AxisCut((2, 5), 0, 3),
}


@pytest.fixture(params=[1 << 22, 13], ids=["whole", "pieces"], autouse=True)
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    monkeypatch.setattr(initial_values, "_PIECE", request.param)


def values_of(initializer: Any, shape: tuple[int, ...], dtype: str = "float32") -> InitialValues:
    assert are_made_in_parts(initializer, shape)
    return InitialValues(initializer, shape, dtype, 7 if dtype == "float32" else 3)


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("initializer", INITIALIZERS, ids=lambda initializer: type(initializer).__name__)
def test_blocks(initializer: Any, cut: BlockCut) -> None:
    values = values_of(initializer, cut.shape)
    whole = initializer(cut.shape).numpy()
    for share in range(cut.shares):
        np.testing.assert_array_equal(values[cut.index(share)], whole[cut.index(share)])


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_dtypes(dtype: str) -> None:
    initializer, index = initializers.TruncatedNormal(seed=3), (slice(1, 4), slice(2, 7))
    found = values_of(initializer, (5, 8), dtype)[index]
    assert found.dtype == tf.as_dtype(dtype).as_numpy_dtype
    np.testing.assert_array_equal(found, initializer((5, 8), dtype=dtype).numpy()[index])


@pytest.mark.parametrize("initializer", INITIALIZERS, ids=lambda initializer: type(initializer).__name__)
@pytest.mark.parametrize("cut", [evenly((7, 5), 4), rows_evenly((11, 3), 3), evenly((13,), 3)], ids=str)
def test_ranges_of_elements(initializer: Any, cut: Any) -> None:
    values = values_of(initializer, cut.shape)
    parts = [read_shard(values, cut, worker).ravel() for worker in range(cut.workers)]
    np.testing.assert_array_equal(np.concatenate(parts), initializer(cut.shape).numpy().ravel())


def test_the_seed_that_is_given_counts() -> None:
    own, chiefs = initializers.HeUniform(seed=1), initializers.HeUniform(seed=2)
    found = InitialValues(own, (6, 4), "float32", seed=2)[()]
    np.testing.assert_array_equal(found, chiefs((6, 4)).numpy())
    assert own.seed == 1


class OfOnesOwn(initializers.RandomNormal):
    """May draw what it likes."""


@pytest.mark.parametrize(
    ("initializer", "shape"),
    [
        (initializers.Orthogonal(seed=1), (4, 4)),
        (initializers.Identity(), (4, 4)),
        (initializers.Constant([1.0, 2.0]), (2,)),
        (initializers.RandomNormal(seed=keras.random.SeedGenerator(1)), (4, 4)),
        (initializers.RandomNormal(seed=1), ()),
        (initializers.Ones(), ()),
        (OfOnesOwn(seed=1), (4, 4)),
        (lambda shape, dtype=None: keras.ops.ones(shape, dtype), (4, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_others_make_all_of_it(initializer: Any, shape: tuple[int, ...]) -> None:
    assert not are_made_in_parts(initializer, shape)
