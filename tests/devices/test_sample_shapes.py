from __future__ import annotations

import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist import keras_repairs
from tfdist.training.config_objects.sample_shapes import diagnose_shapes

X, CLASSES = np.zeros((4, 3), np.float32), np.zeros(4, np.int64)
SPARSE = "sparse_categorical_crossentropy"


def model_of(outputs: int = 1) -> keras.Model:
    inputs = keras.Input([3])
    layers = [keras.layers.Dense(2, activation="softmax")(inputs) for _ in range(outputs)]
    return keras.Model(inputs, layers[0] if outputs == 1 else layers)


@pytest.mark.parametrize(
    ("x", "y", "loss", "outputs", "expected"),
    [
        (
            X[:, :2],
            CLASSES,
            SPARSE,
            1,
            "the samples do not fit the model: .*expected shape=.None, 3.*float32 .None, 2.*",
        ),
        (X.reshape(4, 1, 3)[..., :1], CLASSES, SPARSE, 1, "the samples do not fit the model: "),
        (X.astype("S"), CLASSES, SPARSE, 1, "the samples do not fit the model: the model takes numbers"),
        (X, np.eye(4, 2), SPARSE, 1, "the labels do not fit .* labels of float32 .None, 2. for an output of float32 "),
        (X, CLASSES, "categorical_crossentropy", 1, "the labels do not fit .*and the loss categorical_crossentropy"),
        (X, CLASSES.astype("S"), SPARSE, 1, "the labels do not fit .*labels must be numbers"),
        (X, CLASSES, SPARSE, 2, r"the labels do not fit .*expected labels for 2 output.s., received them for 1"),
        (X, CLASSES, SPARSE, 1, None),
        (X, np.eye(4, 2), "categorical_crossentropy", 1, None),
        (X, (CLASSES, CLASSES), [SPARSE, SPARSE], 2, None),
    ],
)
def test_what_does_not_fit_is_found(
    strategy: tf.distribute.Strategy, x: Any, y: Any, loss: Any, outputs: int, expected: str | None
) -> None:
    keras_repairs.install()
    with strategy.scope():
        model = model_of(outputs)
    good = tfdist.data.arrays(X, CLASSES, batch_size=4, strategy=strategy)
    bad = tfdist.data.arrays(x, y, batch_size=4, strategy=strategy)
    found = diagnose_shapes(
        model, loss, {"data.train": good if outputs == 1 and loss == SPARSE else None, "data.validation": bad}
    )
    if expected is None:
        assert found is None
    else:
        assert found is not None and found.exit_code == 5
        assert str(found).startswith("data.validation: ")
        assert re.search(expected, str(found))
