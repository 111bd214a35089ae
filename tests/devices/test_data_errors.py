from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist.data.ops.record_parser import data_error_in
from tfdist.errors import DataError


def test_labels_that_do_not_fit_the_model() -> None:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        model.fit(tfdist.data.arrays(np.ones((4, 2)), np.array([0, 1, 2, 3]), batch_size=4), verbose=0)
    expected = "The labels do not fit the model's output. Received a label value of 3 which is outside the valid range"
    assert str(data_error_in(raised.value)).startswith(expected)


@pytest.mark.parametrize("text", ["sample 5 is damaged", "sample 5 is damaged:\nno header\nno end"])
def test_what_python_code_of_a_pipeline_raises_is_said_with_its_place(text: str) -> None:
    def decode(number: tf.Tensor) -> tf.Tensor:
        if number == 5:
            raise ValueError(text)
        return number

    numbers = tf.data.Dataset.range(8).map(lambda number: tf.py_function(decode, [number], tf.int64)).batch(4)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        list(numbers)
    error = data_error_in(raised.value)
    assert error is not None
    line = decode.__code__.co_firstlineno + 2
    assert str(error) == f"Reading the data failed in decode ({__file__}:{line}): ValueError: {text}"


def test_a_data_error_is_itself() -> None:
    error = DataError("gone")
    assert data_error_in(error) is error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("DataError: of another library"),
        tf.errors.OutOfRangeError(None, None, "End of sequence [[{{node IteratorGetNext}}]]"),
        tf.errors.UnavailableError(None, None, "Connection reset by peer [[{{node IteratorGetNext}}]]"),
        tf.errors.InvalidArgumentError(None, None, "Matrix size-incompatible [[{{node dense/MatMul}}]]"),
    ],
)
def test_other_errors_are_not_about_the_data(error: Exception) -> None:
    assert data_error_in(error) is None
