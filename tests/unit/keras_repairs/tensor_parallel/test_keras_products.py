"""Sums of products over labels, of rows and a slice of a kernel, as one product of matrices."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.tensor_parallel.keras_products import _one_product

SIZES = {"a": 3, "b": 4, "c": 5, "d": 2, "e": 6}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    "equation",
    [
        "ab,bc->ac",
        "abc,cd->abd",
        "abc,cde->abde",  # queries of attention
        "abc,dce->abde",
        "abc,cd->adb",
        "abcd,cde->abe",  # the output of attention
        "abcd,dce->abe",
        "abcd,ecd->abe",
        "abcd,bd->ac",
        "abcd,bcd->a",
    ],
)
def test_is_what_einsum_gives(equation: str, is_known: bool) -> None:
    of_x, of_kernel, of_result = equation.replace("->", ",").split(",")
    x, kernel = (np.random.default_rng(1).normal(size=[SIZES[label] for label in of]) for of in (of_x, of_kernel))
    multiply = _one_product(of_x, of_kernel, of_result)
    assert multiply is not None
    shape = x.shape if is_known else (None, *x.shape[1:-1], x.shape[-1] if len(of_x) < 4 else None)
    given = tf.TensorSpec(shape, tf.float64), tf.TensorSpec(kernel.shape, tf.float64)
    traced = tf.function(multiply).get_concrete_function(*given)
    found = traced(tf.constant(x), tf.constant(kernel))
    np.testing.assert_allclose(found, np.einsum(equation, x, kernel), 1e-12, 1e-12)
    products = [operation.type for operation in traced.graph.get_operations() if "MatMul" in operation.type]
    assert products == ["MatMul"]


@pytest.mark.parametrize("equation", ["abc,bd->abcd", "abc,bc->abc", "ab,cd->abcd", "abc,cd->ab", "abc,cd->ad"])
def test_what_is_none(equation: str) -> None:
    """A label in all terms, none that is summed, or one that is summed and stands in one term alone."""
    of_x, of_kernel, of_result = equation.replace("->", ",").split(",")
    assert _one_product(of_x, of_kernel, of_result) is None
