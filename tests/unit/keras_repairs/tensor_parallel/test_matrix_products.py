"""Sums of products over labels as one product of matrices."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdist.keras_repairs.tensor_parallel.matrix_products import matrix_product

SIZES = {"a": 3, "b": 4, "c": 5, "d": 2, "e": 6, "f": 3, "g": 2}


def _operands(of_a: str, of_b: str) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [generator.normal(size=[SIZES[label] for label in labels]) for labels in (of_a, of_b)]


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
        "aecd,abcd->acbe",  # scores of attention
        "acbe,aecd->abcd",  # values by scores
        "acbe,abcd->aecd",
        "abcdf,aecf->acbde",
        "acbdef,aefcg->abcdg",
    ],
)
def test_is_what_einsum_gives(equation: str, is_known: bool) -> None:
    of_a, of_b, of_result = equation.replace("->", ",").split(",")
    operands = _operands(of_a, of_b)
    multiply = matrix_product(of_a, of_b, of_result)
    assert multiply is not None
    open_labels = "" if is_known else "ad"
    given = [
        tf.TensorSpec([None if label in open_labels else SIZES[label] for label in labels], tf.float64)
        for labels in (of_a, of_b)
    ]
    traced = tf.function(multiply).get_concrete_function(*given)
    found = traced(*map(tf.constant, operands))
    np.testing.assert_allclose(found, np.einsum(equation, *operands), 1e-12, 1e-12)
    products = [operation.type for operation in traced.graph.get_operations() if "MatMul" in operation.type]
    assert len(products) == 1


@pytest.mark.parametrize("equation", ["abc,cde->abde", "acbe,aecd->abcd", "abcdf,aecf->acbde"])
def test_of_no_rows(equation: str) -> None:
    of_a, of_b, of_result = equation.replace("->", ",").split(",")
    operands = [
        tf.constant(value[:0] if labels[0] == "a" else value)
        for labels, value in zip((of_a, of_b), _operands(of_a, of_b), strict=True)
    ]
    multiply = matrix_product(of_a, of_b, of_result)
    assert multiply is not None
    expected = np.einsum(equation, *operands).shape
    specs = [
        tf.TensorSpec([None if label == "a" else SIZES[label] for label in labels], tf.float64)
        for labels in (of_a, of_b)
    ]
    assert tf.function(multiply, input_signature=specs)(*operands).shape == expected == multiply(*operands).shape


def test_sizes_that_one_operand_knows_are_known() -> None:
    multiply = matrix_product("dac", "bdea", "cdeb")
    assert multiply is not None
    for shapes in (([None, 4, 1], [2, 3, 5, 4]), ([3, 4, 1], [2, None, 5, 4])):
        specs = [tf.TensorSpec(shape, tf.float64) for shape in shapes]
        assert tf.function(multiply).get_concrete_function(*specs).output_shapes.as_list() == [1, 3, 5, 2]


@pytest.mark.parametrize(("equation", "turned"), [("aecd,abcd->acbe", 2), ("acbe,abcd->aecd", 2)])
def test_moves_no_scores(equation: str, turned: int) -> None:
    """Operands and results of heads are brought into order, and the scores stay as they lie."""
    of_a, of_b, of_result = equation.replace("->", ",").split(",")
    multiply = matrix_product(of_a, of_b, of_result)
    assert multiply is not None
    specs = [tf.TensorSpec([SIZES[label] for label in labels], tf.float64) for labels in (of_a, of_b)]
    graph = tf.function(multiply).get_concrete_function(*specs).graph
    moved = [each for each in graph.get_operations() if each.type == "Transpose"]
    scores = sorted(SIZES[label] for label in "acbe")
    assert len(moved) == turned
    assert all(sorted(each.outputs[0].shape.as_list()) != scores for each in moved)


@pytest.mark.parametrize(
    "equation",
    ["abc,bd->abcd", "abc,bc->abc", "ab,cd->abcd", "abc,cd->ab", "abc,cd->ad", "abc,abc->ab"],
)
def test_what_is_none(equation: str) -> None:
    """A label in all terms, none that is summed, or one that is summed and stands in one term alone."""
    assert matrix_product(*equation.replace("->", ",").split(",")) is None
