from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist.data.data_errors import data_error_in
from tfdist.errors import DataError


def test_labels_that_do_not_fit_the_model() -> None:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        model.fit(tfdist.data.arrays(np.ones((4, 2)), np.array([0, 1, 2, 3]), batch_size=4), verbose=0)
    expected = "The labels do not fit the model's output. Received a label value of 3 which is outside the valid range"
    assert str(data_error_in(raised.value)).startswith(expected)


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
