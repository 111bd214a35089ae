"""Batches whose tensors have different numbers of rows: every replica takes them whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")


class Beside(keras.Model):
    """Adds the sum of one tensor to each row of another."""

    def __init__(self) -> None:
        super().__init__()
        self.out = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, inputs: Any) -> Any:
        nodes, edges = inputs
        return self.out(nodes + keras.ops.sum(edges, axis=0))


def compiled(**options: Any) -> keras.Model:
    model = Beside()
    model.compile(keras.optimizers.SGD(0.001), "mse", **options)
    return model


def graphs(sizes: Sequence[tuple[int, int]]) -> tf.data.Dataset:
    """Batches of so many nodes and edges each, in an order that is another one in each epoch."""

    def made() -> Iterator[Any]:
        for nodes, edges in sizes:
            x = np.linspace(0, 1, 2 * nodes, dtype="float32").reshape(nodes, 2)
            yield (x, np.full((edges, 2), 0.1 * edges, "float32")), x[:, :1]

    shapes = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 2))), tf.TensorSpec((None, 1))
    return tf.data.Dataset.from_generator(made, output_signature=shapes).shuffle(3, seed=5)


DIFFERENT = [(6, 18), (8, 5), (1, 3), (7, 7), (4, 4)]


@pytest.mark.parametrize("options", [{}, slow({"steps_per_execution": 2}), slow({"run_eagerly": True})])
def test_they_are_whole_on_every_replica(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    def outcome() -> list[Any]:
        data, model = graphs(DIFFERENT), compiled(**options)
        history = model.fit(data, epochs=3, validation_data=graphs([(3, 5), (4, 2)]), verbose=0).history
        return [
            *(history[name] for name in sorted(history)),
            model.evaluate(graphs(DIFFERENT), verbose=0),
            model.predict(graphs(DIFFERENT), verbose=0),
            *model.get_weights(),
        ]

    expected = outcome()
    with mirrored(2).scope(), caplog.at_level(logging.WARNING, "tfdist"):
        for several, one in zip(outcome(), expected, strict=True):
            np.testing.assert_allclose(several, one, rtol=1e-5)
    assert "different numbers of rows" in caplog.text


def test_those_that_begin_with_as_many_rows_in_each_are_refused() -> None:
    data = graphs([(7, 7), (7, 7), (7, 7), (6, 18)])
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


def test_ragged_rows_of_ragged_rows() -> None:
    ids = tf.ragged.constant([[[1, 2], []], [], [[3]], [[], [], [4, 5]], [[1]], [[]]], dtype=tf.int32)

    class Summed(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.dense = keras.layers.Embedding(9, 3), keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(tf.reduce_sum(tf.reduce_sum(self.embedding(x), 2), 1))

    def losses() -> list[float]:
        keras.utils.set_random_seed(1)
        model = Summed()
        model.compile("sgd", "mse")
        data = tf.data.Dataset.from_tensor_slices((ids, np.arange(6.0, dtype="float32")[:, np.newaxis])).batch(4)
        found: list[float] = model.fit(data, epochs=2, verbose=0).history["loss"]
        return found

    expected = losses()
    with mirrored(2).scope():
        np.testing.assert_allclose(losses(), expected, rtol=1e-5)
