"""Keras's callbacks that would write where TensorFlow has no file system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from tfdist import keras_repairs
from tfdist.errors import UsageError

CALLBACKS = {
    "ModelCheckpoint": lambda url: keras.callbacks.ModelCheckpoint(f"{url}.keras"),
    "BackupAndRestore": lambda url: keras.callbacks.BackupAndRestore(url),
    "CSVLogger": lambda url: keras.callbacks.CSVLogger(url),
}


@pytest.mark.parametrize("url", ["s3://bucket/a", "hdfs://name/a"])
@pytest.mark.parametrize("name", CALLBACKS)
def test_it_is_refused_before_the_first_step(name: str, url: str) -> None:
    keras_repairs.install()
    make: Callable[[str], Any] = CALLBACKS[name]
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    before = [weight.copy() for weight in model.get_weights()]
    with pytest.raises(UsageError, match=f"{name} writes by TensorFlow's file systems.*Received: {url}"):
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[make(url)])
    assert all(np.array_equal(*pair) for pair in zip(before, model.get_weights(), strict=True))
