"""Activations of a slice of rows are one compiled operation, and keep nothing but the slice for their gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow import nn
from tensorflow.python.framework.func_graph import FuncGraph

from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.recomputation import RECOMPUTATION_SCOPE
from tfdist.keras_repairs.tensor_parallel import created_operations, keras_activations
from tfdist.keras_repairs.tensor_parallel.sliced_tensors import SlicedRows, note, sliced_of
from tfdist.sharding.mesh import ShardGroup

BOUNDS = (0, 4, 6)
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": partial(keras_activations.gelu(nn.gelu), approximate=False),
    "gelu by tanh": keras_activations.gelu(nn.gelu),
    "silu": keras_activations.silu(nn.silu),
}


@pytest.fixture(autouse=True)
def repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    create = created_operations.create_operation(FuncGraph._create_op_internal)
    monkeypatch.setattr(FuncGraph, "_create_op_internal", create)


def traced_of(function: Callable[[Any], Any], dtype: tf.DType, places: int | None = None) -> Any:
    """The function of a slice, as a concrete function of the slice: value and gradient."""

    def of_slice(own: tf.Tensor) -> tf.Tensor:
        x = tf.compat.v1.placeholder(dtype, [None, places, 6])
        counts = tf.compat.v1.placeholder_with_default(np.array([2, 1]), [2])
        note(x, SlicedRows(own, 2, BOUNDS, ShardGroup((0, 1), 0, (0,), (0, 1)), counts, x))
        found = sliced_of(function(x))
        assert isinstance(found, SlicedRows), "computed of the full tensor"
        return found.slice

    def both(own: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(own)
            result = of_slice(own)
        return result, tape.gradient(result, own, tf.sin(result))

    return tf.function(both, autograph=False).get_concrete_function(tf.TensorSpec([None, places, 4], dtype))


def names_of(traced: Any) -> set[str]:
    return {operation.type for operation in traced.graph.get_operations()}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("rows", [0, 3])
def test_numbers(name: str, dtype: tf.DType, rows: int) -> None:
    function = ACTIVATIONS[name]
    own = tf.cast(np.random.default_rng(0).normal(size=(rows, 3, 4)) * 6, dtype)
    with tf.GradientTape() as tape:
        tape.watch(own)
        expected = function(own)
    tolerance = {tf.float32: 1e-6, tf.float64: 1e-13, tf.bfloat16: 2e-2}[dtype]
    for found, given in zip(
        traced_of(function, dtype)(own), (expected, tape.gradient(expected, own, tf.sin(expected))), strict=True
    ):
        np.testing.assert_allclose(tf.cast(found, tf.float64), tf.cast(given, tf.float64), tolerance, tolerance)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_is_one_operation(name: str) -> None:
    traced = traced_of(ACTIVATIONS[name], tf.float32)
    assert names_of(traced) & {"Mul", "Erfc", "Pow", "Tanh", "Sigmoid"} == set()


def test_half_precision_is_not_compiled() -> None:
    assert "Mul" in names_of(traced_of(ACTIVATIONS["silu"], tf.bfloat16))


def test_what_is_computed_again_is_not_compiled() -> None:
    with changing(RECOMPUTATION_SCOPE, is_inside=True):
        assert "Mul" in names_of(traced_of(ACTIVATIONS["silu"], tf.float32))


def test_a_debugger_sees_all_operations() -> None:
    tf.debugging.enable_check_numerics()
    try:
        assert {"Mul", "Erfc"} <= names_of(traced_of(ACTIVATIONS["gelu"], tf.float32))
    finally:
        tf.debugging.disable_check_numerics()


@pytest.mark.parametrize(("least", "most", "number"), [(0, 9, 9), (33, 65, 4), (257, 513, 4)])
def test_any_number_of_rows_is_computed_in_few_sizes(least: int, most: int, number: int) -> None:
    sizes: set[int] = set()

    def compute(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        sizes.add(int(tf.size(x)))
        return x + 2 * y

    @partial(tf.function, input_signature=[tf.TensorSpec([None], tf.int64)] * 2)
    def of_any_size(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return keras_activations._in_few_sizes(lambda x, y: tf.py_function(compute, [x, y], tf.int64), x, y)

    for size in range(least, most):
        x = tf.range(size, dtype=tf.int64)
        np.testing.assert_array_equal(of_any_size(x, x + 1), x + 2 * (x + 1))
    assert len(sizes) == number and max(sizes) < 1.25 * most


def test_special_values() -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, 1e30, -1e30]
    own = tf.constant(np.resize(special, (3, 3, 4)), tf.float32)
    for function in ACTIVATIONS.values():
        np.testing.assert_array_equal(traced_of(function, tf.float32)(own)[0], function(own))
