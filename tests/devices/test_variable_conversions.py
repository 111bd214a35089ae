"""A variable of a strategy is converted to a number or an array as one of one device is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored

pytestmark = pytest.mark.usefixtures("repaired")


@pytest.mark.parametrize("convert", [bool, int, float, complex])
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


def test_a_variable_decides() -> None:
    """In Python, in a branch of TensorFlow's, and where a graph has no value to decide by."""
    with mirrored(2).scope():
        on, off, vector = tf.Variable(True), tf.Variable(0), tf.Variable([1.0, 0.0])
    assert [name for name, variable in {"on": on, "off": off}.items() if variable] == ["on"]
    assert tf.cond(off, lambda: 1, lambda: 2) == 2
    assert mirrored(2).run(lambda: bool(on) and not off)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(vector)
    with pytest.raises(TypeError):
        tf.function(lambda: 1 if on else 2, autograph=False)()


def test_tensorflow_asks_whether_there_is_a_variable() -> None:
    """Which it does of the destinations of what is broadcast; a variable that is 0 is one."""
    with mirrored(2).scope():
        variable = tf.Variable(0.0)
        copies = mirrored(2).extended.broadcast_to(tf.constant(3.0), variable)
    assert [float(copy) for copy in mirrored(2).experimental_local_results(copies)] == [3.0, 3.0]
