"""What would train wrong or crash is refused before the first step, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.exactness.table import classifier, numbers
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")


def compiled(**options: Any) -> keras.Model:
    model = classifier()
    model.compile(**{"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"} | options)
    return model


class NormalizingCell(keras.layers.SimpleRNNCell):
    """Normalizes its state at each time step."""

    def __init__(self, units: int) -> None:
        super().__init__(units)
        self.norm = keras.layers.BatchNormalization(name="in_a_loop")

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.norm.build((None, self.units))

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        output, _ = super().call(inputs, states, training=training)
        normalized = self.norm(output, training=training)
        return normalized, [normalized]


def recurrent() -> keras.Model:
    parts = [keras.layers.Reshape((3, 2)), keras.layers.RNN(NormalizingCell(3)), keras.layers.Softmax()]
    model = keras.Sequential([keras.Input((6,)), *parts])
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def overwriting() -> keras.Model:
    model = compiled()
    model.layers[0].kernel.overwrite_with_gradient = True
    return model


def vectorizing(**options: Any) -> keras.Model:
    texts = keras.layers.TextVectorization(vocabulary=["a", "b"], **options)
    model = keras.Sequential([keras.Input((1,), dtype="string"), texts, keras.layers.Embedding(4, 3)])
    model.add(keras.layers.GlobalAveragePooling1D())
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def test_texts_that_are_padded_to_the_longest_of_a_replica_are_refused() -> None:
    texts, y = tf.constant([["a"], ["a b a"], ["b"], ["a b"]]), tf.constant([0, 1, 2, 0])
    with mirrored(2).scope():
        with pytest.raises(UnsupportedError, match="output_sequence_length"):
            vectorizing().fit(texts, y, verbose=0)
        vectorizing(output_sequence_length=3).fit(texts, y, verbose=0)


REFUSED: dict[str, Callable[[], keras.Model]] = {
    "'in_a_loop' takes the statistics of the global batch inside of a loop": recurrent,
    "takes its gradient for its value": lambda: overwriting(),
    "reduction=None": lambda: compiled(loss=keras.losses.SparseCategoricalCrossentropy(reduction=None)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_on_several_replicas(name: str) -> None:
    x, y = numbers(8)
    with mirrored(2).scope():
        model = REFUSED[name]()
        with pytest.raises(UnsupportedError, match=name):
            model.fit(x.astype("float32"), y, verbose=0)


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "reduction=None"])
def test_left_alone_on_one_replica(name: str) -> None:
    x, y = numbers(8)
    REFUSED[name]().fit(x.astype("float32"), y, verbose=0)


def test_a_dataset_said_to_be_sharded_already_is_one_process_matter() -> None:
    """auto_shard_policy speaks of workers; with one worker it changes nothing."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = tf.data.Dataset.from_tensor_slices(numbers(8)).batch(4).with_options(options)
    with mirrored(2).scope():
        compiled().fit(data, verbose=0)
