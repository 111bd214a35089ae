"""Models that couple the samples of a batch in a way that the halves of their first batch do not show.

The check of the first step finds nothing in it; what is made up to try a model out must show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from tests.exactness.comparison import assert_same
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.coupling.trials import made_up_inputs

pytestmark = pytest.mark.usefixtures("repaired")

BATCH = 3
TARGETS = np.arange(6.0, dtype="float32")[:, np.newaxis]
TEXTS = np.array(["a b c", "", "d e a", "f b b", "c", ""])
COUNTS = np.array([3, 1, 3, 4, 2, 1], "int32")
"""In the first batch, of two replicas both have the most."""


class Called(keras.Model):
    """A model whose call is a function of layers; one of them is in no call, and never built."""

    def __init__(self, function: Callable[..., Any], *inner: layers.Layer) -> None:
        super().__init__()
        self.function, self.inner, self.unused = function, list(inner), layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.function(x, *self.inner)


def padded(texts: Any, words: Any, embedding: Any, dense: Any) -> Any:
    return dense(tf.reduce_sum(embedding(words(texts).to_tensor()), 1))


def padded_ragged(rows: Any, embedding: Any, dense: Any) -> Any:
    return dense(tf.reduce_sum(embedding(rows.to_tensor()), 1))


def masked(counts: Any, dense: Any) -> Any:
    absent = 1 - tf.cast(tf.sequence_mask(counts), "float32")
    return dense(tf.cast(counts, "float32")[:, tf.newaxis]) + tf.reduce_sum(absent, 1, keepdims=True)


def scaled(counts: Any, dense: Any) -> Any:
    return dense((ops.cast(counts, "float32") / ops.cast(ops.max(counts), "float32"))[:, tf.newaxis])


class Scaled(layers.Layer):
    """Divides by the largest number of the batch."""

    def call(self, counts: Any) -> Any:
        return ops.cast(counts, "float32") / ops.cast(ops.max(counts), "float32")


def words() -> layers.TextVectorization:
    made = layers.TextVectorization(ragged=True)
    made.adapt(TEXTS)
    return made


MODELS: dict[str, tuple[Callable[[], keras.Model], Any]] = {
    "texts": (lambda: Called(padded, words(), layers.Embedding(12, 3), layers.Dense(1)), TEXTS),
    "ragged": (
        lambda: Called(padded_ragged, layers.Embedding(12, 3), layers.Dense(1)),
        tf.RaggedTensor.from_row_lengths(tf.range(14) % 5, COUNTS),
    ),
    "sequence_mask": (lambda: Called(masked, layers.Dense(1)), COUNTS),
    "largest_integer": (lambda: Called(scaled, layers.Dense(1)), COUNTS),
    "layer": (
        lambda: keras.Sequential([keras.Input([1], dtype="int32"), Scaled(), layers.Dense(1)]),
        COUNTS[:, np.newaxis],
    ),
}


def outcome(name: str) -> list[Any]:
    keras.utils.set_random_seed(1)
    make, x = MODELS[name]
    model = make()
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((x, TARGETS)).batch(BATCH)
    history = model.fit(data, epochs=2, verbose=0).history["loss"]
    return [history, model.evaluate(data, verbose=0), model.predict(data.map(lambda x, y: x), verbose=0).tolist()]


@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_one_replica(name: str) -> None:
    expected = outcome(name)
    with mirrored(2).scope():
        assert_same(expected, outcome(name), relative=1e-5)


@pytest.mark.parametrize("name", ["sequence_mask", "layer"])
def test_small_numbers_alone_do_not_show_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, small = made_up_inputs._values, made_up_inputs.Numbers.PROPER
    monkeypatch.setattr(made_up_inputs, "_values", lambda dtype, sizes, draws, _: values(dtype, sizes, draws, small))
    expected = outcome(name)
    with mirrored(2).scope(), pytest.raises(AssertionError):
        assert_same(expected, outcome(name), relative=1e-5)


def test_a_layer_that_fails_on_larger_numbers_is_tried_out_on_small_ones(caplog: pytest.LogCaptureFixture) -> None:
    class Kinds(layers.Layer):
        def call(self, kinds: Any) -> Any:
            return tf.gather(tf.constant([[1.0], [2.0]]), kinds)

    def fitted() -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input([], dtype="int32"), Kinds(), layers.Dense(1)])
        model.compile("sgd", "mse")
        losses: list[float] = model.fit(COUNTS % 2, TARGETS, batch_size=BATCH, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted()
    with mirrored(2).scope():
        assert_same(expected, fitted(), relative=1e-5)
    assert "is called with the samples of all replicas" not in caplog.text
