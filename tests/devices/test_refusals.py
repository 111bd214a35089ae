"""What would train wrong or crash is refused before the first step, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

from tests.devices.mirrored import mirrored
from tests.exactness.table import classifier, numbers
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")


def compiled(**options: Any) -> keras.Model:
    model = classifier()
    model.compile(**{"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"} | options)
    return model


def normalizing(**options: Any) -> keras.Model:
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.BatchNormalization(synchronized=True), keras.layers.Dense(3, "softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", **options)
    return model


def overwriting() -> keras.Model:
    model = compiled()
    model.layers[0].kernel.overwrite_with_gradient = True
    return model


REFUSED: dict[str, Callable[[], keras.Model]] = {
    "synchronized=True": lambda: normalizing(jit_compile=True),
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
