"""Batches whose tensors have different numbers of rows, which no replica can be given a part of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")


class Beside(keras.Model):
    """Adds the sum of one tensor to each row of another."""

    def __init__(self) -> None:
        super().__init__()
        self.out = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, inputs: Any) -> Any:
        nodes, edges = inputs
        return self.out(nodes + keras.ops.sum(edges, axis=0))


def compiled() -> keras.Model:
    model = Beside()
    model.compile("sgd", "mse")
    return model


def graphs() -> Iterator[Any]:
    for nodes in (6, 8):
        yield (np.ones((nodes, 2), "float32"), np.ones((3 * nodes, 2), "float32")), np.ones((nodes, 1), "float32")


def test_what_shows_in_a_batch_alone_is_refused() -> None:
    shapes = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 2))), tf.TensorSpec((None, 1))
    data = tf.data.Dataset.from_generator(graphs, output_signature=shapes)
    with mirrored(2).scope(), pytest.raises(tf.errors.InvalidArgumentError, match="different numbers of rows"):
        compiled().fit(data, verbose=0)


def test_single_batches_run_whole() -> None:
    inputs, y = (np.ones((3, 2), "float32"), 0.1 * np.ones((7, 2), "float32")), np.ones((3, 1), "float32")

    def outcome() -> list[Any]:
        model = compiled()
        loss = model.train_on_batch(inputs, y), model.test_on_batch(inputs, y)
        return [*loss, model.predict_on_batch(inputs)]

    expected = outcome()
    with mirrored(2).scope():
        for several, one in zip(outcome(), expected, strict=True):
            np.testing.assert_allclose(several, one, rtol=1e-5)
