"""Weights of samples by the class that their label names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfdist.errors import DataError


def weighted(batches: tf.data.Dataset, weights: Mapping[int, float]) -> tf.data.Dataset:
    """Adds a weight to each sample: that of its class, and 1 for classes without one.

    Args:
        batches: Batches `(x, y)`. A label is a class's number, of shape [k] or [k, 1], or one-hot, [k, classes].
        weights: Class number -> weight.

    Returns:
        Batches `(x, y, weight)` with float32 weights [k].

    Raises:
        DataError: The samples have no label, weights of their own, or labels that name no class.
    """
    spec = batches.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        has = "weights of their own" if isinstance(spec, tuple) and len(spec) == 3 else "no label"
        raise DataError(
            f"Expected samples (x, y) that are weighted by their class. Received: samples with {has}. Leave "
            "class_weight out."
        )
    label = spec[1]
    if not isinstance(label, tf.TensorSpec) or label.dtype == tf.string or label.shape.rank not in (1, 2):
        raise DataError(
            f"Expected labels that are numbers of classes, or one-hot. Received: {label}. Leave class_weight out."
        )
    classes = tf.constant(sorted(weights), tf.int64)
    values = tf.constant([weights[number] for number in sorted(weights)], tf.float32)

    def with_weight(x: Any, y: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
        numbers = _numbers(y)
        places = tf.minimum(tf.searchsorted(classes, numbers), len(weights) - 1)
        has_weight = tf.gather(classes, places) == numbers
        return x, y, tf.where(has_weight, tf.gather(values, places), 1.0)

    return batches.map(with_weight) if weights else batches


def _numbers(labels: tf.Tensor) -> tf.Tensor:
    """The numbers of the classes, int64 [k]."""
    if labels.shape.rank == 2 and labels.shape[1] != 1:
        return tf.argmax(labels, axis=1)
    flat = tf.reshape(labels, [-1])
    return tf.cast(tf.round(flat) if flat.dtype.is_floating else flat, tf.int64)
