"""A variable of a strategy is converted to a number or an array as one of one device is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("value", [0.0, 2.0])
@pytest.mark.parametrize("aggregation", ["mirrored", "summed"])
def test_variables_of_tensorflow(convert: Callable[[Any], Any], value: float, aggregation: str) -> None:
    settings = {"mirrored": {}, "summed": {"synchronization": tf.VariableSynchronization.ON_READ}}[aggregation]
    alone = tf.Variable(value)
    with mirrored(2).scope():
        variable = tf.Variable(value, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA, **settings)
        assert convert(variable) == convert(alone)


@pytest.mark.parametrize("dtype", [None, "float64", "int32"])
@pytest.mark.parametrize("value", [2.0, [1.0, 2.0]])
def test_arrays(value: Any, dtype: str | None) -> None:
    with mirrored(2).scope():
        variable = tf.Variable(value)
        made = np.array(variable, dtype)
        assert made.dtype == (dtype or "float32")
        np.testing.assert_array_equal(made, value)
        variable.assign_add(tf.ones_like(value))
        np.testing.assert_array_equal(made, value)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(variable), np.add(value, 1.0))


def test_variables_of_keras() -> None:
    with mirrored(2).scope():
        optimizer = keras.optimizers.Adam(0.125)
        assert float(optimizer.learning_rate) == 0.125
        assert int(optimizer.iterations) == 0


def test_a_vector_is_no_number() -> None:
    with mirrored(2).scope():
        vector = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError, match="[Oo]nly .*(scalar|0-dimensional|size-1|length-1)"):
        float(vector)


def test_a_graph_has_no_numbers() -> None:
    with mirrored(2).scope():
        variable = tf.Variable(1.0)

        @tf.function(autograph=False)
        def step() -> float:
            return float(variable)

        with pytest.raises((TypeError, NotImplementedError)):
            step()


def test_tensorflow_asks_whether_there_is_a_variable() -> None:
    """Which it does of the destinations of what is broadcast; a variable that is 0 is one."""
    with mirrored(2).scope():
        assert tf.Variable(0.0)
