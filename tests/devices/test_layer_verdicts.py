"""A layer is tried out in each way of calling it: what a trial has shown of one says nothing of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers, ops

from tests.exactness.comparison import assert_same
from tests.exactness.table import numbers
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.coupling.trials.made_up_inputs import way_of_calling

pytestmark = pytest.mark.usefixtures("repaired", "float64")


class Centering(layers.Layer):
    """Couples the rows of a batch where it is told to, by whatever means."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking = True
        self.couples = False

    def call(self, inputs: Any, of_batch: bool = False, mask: Any = None) -> Any:
        couples = of_batch or self.couples or mask is not None or len(inputs.shape) == 3
        return inputs - ops.mean(inputs, axis=0) if couples else inputs


def _by_keyword(layer: Centering, x: Any) -> Any:
    return layer(layer(x), of_batch=True)


def _by_shape(layer: Centering, x: Any) -> Any:
    return layers.Flatten()(layer(layers.Reshape((3, 2))(layer(x))))


def _by_mask(layer: Centering, x: Any) -> Any:
    steps = layers.Masking(-1.0)(layers.Reshape((6, 1))(layer(x)))
    return layers.Flatten()(layer(steps))


def trained(call: Callable[[Centering, Any], Any], *, then_couples: bool = False) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    x, y = numbers(33)
    inputs, layer = keras.Input((6,)), Centering()
    model = keras.Model(inputs, layers.Dense(3, "softmax")(call(layer, inputs)))
    histories = []
    for couples in [False, *([True] if then_couples else [])]:
        layer.couples = couples
        model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy")
        histories.append(model.fit(x, y, epochs=2, shuffle=False, verbose=0).history)
    return {"histories": histories, "weights": [weight.tolist() for weight in model.get_weights()]}


@pytest.mark.parametrize("call", [_by_keyword, _by_shape, _by_mask])
def test_each_way_is_tried_out(call: Callable[[Centering, Any], Any]) -> None:
    expected = trained(call)
    with mirrored(2).scope():
        assert_same(expected, trained(call))


def test_a_switch_of_the_layer_is_another_way() -> None:
    def call(layer: Centering, x: Any) -> Any:
        return layer(x)

    expected = trained(call, then_couples=True)
    with mirrored(2).scope():
        assert_same(expected, trained(call, then_couples=True))


def test_what_is_no_other_way() -> None:
    """Of what differs at every call nothing may be kept."""
    layer = Centering()
    first = way_of_calling(layer, (tf.ones([5, 3]),), {"scale": print}, trains=False)
    assert way_of_calling(layer, (tf.zeros([5, 3]),), {"scale": print}, trains=False) == first
    assert way_of_calling(layer, (tf.ones([5, 3]),), {"scale": print}, trains=True) != first
    layer.trainable = False
    assert way_of_calling(layer, (tf.ones([5, 3]),), {"scale": print}, trains=False) != first
