"""The line that says why a step could not be tried out."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from tfdist.keras_repairs.coupling.trials.steps.step_verdict import failed


def test_the_reason_of_an_error_in_a_layer_is_named_and_not_where_keras_found_it() -> None:
    class Failing(keras.layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            raise ValueError("odd rows\nand more")

    with pytest.raises(ValueError, match="Exception encountered") as error:
        Failing()(tf.ones([2]))
    assert failed(error.value).what == "ValueError: odd rows"


def test_the_reason_of_another_error_is_its_first_line() -> None:
    assert failed(ValueError("\nodd rows\nand more")).what == "ValueError: odd rows"
    assert failed(ValueError()).what == "ValueError: "
