"""Tests of what a worker computes for its rows of a table by itself."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.install import install
from tfdist.keras_repairs.sharded_embeddings.embedding_layers import check_constraint
from tfdist.keras_repairs.sharded_embeddings.row_penalties import penalty_of
from tfdist.keras_repairs.sharded_embeddings.table_variable import initial_rows
from tfdist.keras_repairs.sharded_optimizer.cut_kinds import is_linear
from tfdist.layers import ShardedEmbedding
from tfdist.optimizers import LazyAdam
from tfdist.sharding.cut import rows_evenly

initializers, constraints, optimizers = keras.initializers, keras.constraints, keras.optimizers


def of_ones_own(shape: tuple[int, ...], dtype: Any = None) -> Any:
    return tf.reshape(tf.range(shape[0] * shape[1], dtype=dtype), shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "initializer",
    [
        initializers.RandomUniform(seed=7),
        initializers.Constant(3.0),
        of_ones_own,
    ],
    ids=lambda initializer: type(initializer).__name__,
)
@pytest.mark.parametrize("shape", [(11, 3), (8, 4), (10, 1)])
def test_rows_begin_as_those_of_one_device(initializer: Any, shape: tuple[int, int], dtype: str) -> None:
    install()
    whole = tf.convert_to_tensor(initializer(shape, dtype=dtype))
    cut = rows_evenly(shape, 3)
    parts = [initial_rows(initializer, cut, worker, dtype, "table") for worker in range(3)]
    assert [tuple(part.shape) for part in parts] == [cut.shard_shape(worker) for worker in range(3)]
    np.testing.assert_array_equal(tf.concat(parts, 0).numpy(), whole.numpy())


def test_rows_of_a_large_table_are_made_without_the_others() -> None:
    """A whole table would be 512 GiB."""
    install()
    cut = rows_evenly((1 << 32, 32), 1 << 22)
    rows = initial_rows(initializers.RandomUniform(seed=7), cut, (1 << 22) - 1, "float32", "table")
    assert tuple(rows.shape) == (1024, 32) and len(np.unique(rows.numpy())) > 30_000


@pytest.mark.parametrize(
    "constraint",
    [None, constraints.NonNeg(), constraints.MaxNorm(axis=1), constraints.UnitNorm(axis=-1),
     constraints.MinMaxNorm(axis=[1])],
)  # fmt: skip
def test_constraints_of_rows(constraint: Any) -> None:
    check_constraint(constraint, "words")


@pytest.mark.parametrize(
    ("constraint", "named"),
    [
        (constraints.MaxNorm(), r"MaxNorm\(axis=0\)"),
        (constraints.UnitNorm(axis=[0, 1]), r"UnitNorm\(axis=\[0, 1\]\)"),
        (type("Own", (constraints.NonNeg,), {})(), "Own"),
    ],
)
def test_constraints_that_need_other_rows(constraint: Any, named: str) -> None:
    with pytest.raises(UnsupportedError, match=f"embedding 'words' is sharded, and its constraint {named} may need"):
        check_constraint(constraint, "words")


def test_regularizers_that_need_other_rows() -> None:
    assert penalty_of(None, "words") is None
    penalty = penalty_of(keras.regularizers.L2(0.5), "words")
    assert penalty is not None and penalty.get_config() == keras.regularizers.L2(0.5).get_config()
    with pytest.raises(UnsupportedError, match="its regularizer OrthogonalRegularizer may need all rows"):
        penalty_of(keras.regularizers.OrthogonalRegularizer(), "words")


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (optimizers.SGD(), True),
        (optimizers.SGD(momentum=0.9, nesterov=True), True),
        (optimizers.LossScaleOptimizer(optimizers.SGD()), True),
        (optimizers.SGD(clipvalue=1.0), False),
        (optimizers.SGD(global_clipnorm=1.0), False),
        (optimizers.Adagrad(), False),
        (type("Own", (optimizers.SGD,), {"update_step": lambda self, *args: None})(), False),
    ],
)
def test_which_optimizers_take_sums_of_slices(optimizer: Any, expected: bool) -> None:
    assert is_linear(optimizer) == expected


def test_lazy_adam_is_adam_for_the_rows_of_a_batch() -> None:
    """In the first step, where no moment has decayed; other rows, and their moments, rest."""
    begin, rows = np.random.default_rng(1).normal(size=(5, 3)), [3, 1, 3]
    values = np.random.default_rng(2).normal(size=(3, 3))
    dense = np.zeros((5, 3))
    np.add.at(dense, rows, values)
    lazy, adam = (keras.Variable(begin, dtype="float64") for _ in range(2))
    optimizer, reference = LazyAdam(0.1), optimizers.Adam(0.1)
    optimizer.apply([tf.IndexedSlices(tf.constant(values), rows, (5, 3))], [lazy])
    reference.apply([tf.constant(dense)], [adam])
    np.testing.assert_allclose(lazy.numpy(), adam.numpy(), rtol=1e-12)
    after = lazy.numpy()
    optimizer.apply([tf.IndexedSlices(tf.constant(values[:1]), [0], (5, 3))], [lazy])
    np.testing.assert_array_equal(lazy.numpy()[1:], after[1:])
    assert (lazy.numpy()[0] != after[0]).all()


def test_lazy_adam_updates_dense_gradients_as_adam() -> None:
    lazy, adam = (keras.Variable(np.ones((2, 2)), dtype="float64") for _ in range(2))
    optimizer, reference = LazyAdam(0.1, weight_decay=0.1), optimizers.Adam(0.1, weight_decay=0.1)
    for _ in range(3):
        optimizer.apply([tf.ones((2, 2), tf.float64)], [lazy])
        reference.apply([tf.ones((2, 2), tf.float64)], [adam])
    np.testing.assert_array_equal(lazy.numpy(), adam.numpy())
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert isinstance(again, LazyAdam) and again.get_config() == optimizer.get_config()
    with pytest.raises(ValueError, match="LazyAdam has no AMSGrad"):
        LazyAdam(amsgrad=True)


def test_on_one_worker_it_is_an_embedding_of_keras() -> None:
    layer = ShardedEmbedding(7, 3, mask_zero=True)
    assert layer(np.array([[1, 6]])).shape == (1, 2, 3)
    assert type(layer.embeddings) is keras.Variable
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert isinstance(again, ShardedEmbedding) and again.get_config() == layer.get_config()
