"""Sums of products over labels, as `tf.einsum` takes them, as one product of matrices.

`tf.einsum` brings a result of another order than that of its operands into place afterwards, and the gradients alike;
scores of attention, the largest tensors of a block, are then moved several times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Multiply = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def matrix_product(of_a: str, of_b: str, of_result: str) -> Multiply | None:
    """Returns what multiplies two tensors of floating point numbers of one dtype; None where it is no product of
    matrices, such as where nothing is summed, or a label is in one operand alone and not in the result.

    Operands whose labels come in the order of a matrix or of its transpose stay as they lie, and so does a result that
    begins with the labels of either operand.

    Args:
        of_a: A label for each dimension of the first tensor, each once.
        of_b: The same of the second.
        of_result: The same of the result.

    Example:
        >>> matrix_product("ij", "jk", "ik")(tf.eye(2), tf.ones((2, 3))).shape
        TensorShape([2, 3])
    """
    labels = _labels_of(of_a, of_b, of_result)
    if labels is None:
        return None
    if labels.is_swapped(of_result):
        swapped = matrix_product(of_b, of_a, of_result)
        return None if swapped is None else lambda a, b: swapped(b, a)

    def multiply(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        left, is_left_turned = _matrix(a, of_a, labels.shared, labels.of_a, labels.summed)
        right, is_right_turned = _matrix(b, of_b, labels.shared, labels.summed, labels.of_b)
        result = tf.matmul(left, right, transpose_a=is_left_turned, transpose_b=is_right_turned)
        order = labels.shared + labels.of_a + labels.of_b
        if not len(labels.of_a) == len(labels.of_b) == 1:
            sizes = [*zip(of_a, _sizes(a), strict=True), *zip(of_b, _sizes(b), strict=True)]
            # Of a label that both have one size may be known.
            by_label = dict(sorted(sizes, key=lambda each: isinstance(each[1], int)))
            result = tf.reshape(result, [by_label[label] for label in order])
        return _in_order(result, order, of_result)

    return multiply


@dataclass(frozen=True)
class _Labels:
    """Labels of a product of matrices.

    Attributes:
        shared: Of the matrices that are multiplied each by itself, in the order of the result.
        summed: Along which products are summed.
        of_a: Of the first operand alone, in the order of the result.
        of_b: The same of the second.
    """

    shared: str
    summed: str
    of_a: str
    of_b: str

    def is_swapped(self, of_result: str) -> bool:
        """Returns whether the result begins with labels of the second operand, where it lies as the product of the
        second and the first."""
        order = [label for label in of_result if label not in self.shared]
        return order != [*self.of_a, *self.of_b] and order == [*self.of_b, *self.of_a]


def _labels_of(of_a: str, of_b: str, of_result: str) -> _Labels | None:
    labels = _Labels(
        "".join(label for label in of_result if label in of_a and label in of_b),
        "".join(label for label in of_a if label in of_b and label not in of_result),
        "".join(label for label in of_result if label not in of_b),
        "".join(label for label in of_result if label not in of_a),
    )
    is_whole = all(
        sorted(of) == sorted(labels.shared + labels.summed + alone)
        for of, alone in ((of_a, labels.of_a), (of_b, labels.of_b))
    )
    is_of_matrices = bool(labels.of_a and labels.of_b) or not labels.shared
    return labels if is_whole and labels.summed and is_of_matrices else None


def _matrix(tensor: tf.Tensor, labels: str, shared: str, rows: str, columns: str) -> tuple[tf.Tensor, bool]:
    """Matrices `[..., rows, columns]`, and whether they lie as their transposes."""
    is_turned = labels == shared + columns + rows
    groups = (columns, rows) if is_turned else (rows, columns)
    ordered = _in_order(tensor, labels, shared + "".join(groups))
    if len(rows) == len(columns) == 1:
        return ordered, is_turned
    sizes = _sizes(ordered)
    of_first, of_second = sizes[len(shared) :][: len(groups[0])], sizes[len(shared + groups[0]) :]
    return tf.reshape(ordered, [*sizes[: len(shared)], math.prod(of_first), math.prod(of_second)]), is_turned


def _in_order(tensor: tf.Tensor, labels: str, order: str) -> tf.Tensor:
    return tensor if labels == order else tf.transpose(tensor, [labels.index(label) for label in order])


def _sizes(tensor: tf.Tensor) -> list[Any]:
    known = tensor.shape.as_list()
    sizes = tf.shape(tensor) if None in known else None
    return [sizes[place] if size is None and sizes is not None else size for place, size in enumerate(known)]
