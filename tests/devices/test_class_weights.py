"""Weights of samples by their class: those of `Model.fit` on one device, and the same on several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.table import classifier
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.config import NpzSource
from tfdist.data import from_config
from tfdist.data.sample_feed import weighted
from tfdist.errors import DataError, UnsupportedError

WEIGHTS = {2: 5.0, 0: 0.5}
CLASSES = np.array([0, 1, 2, 3, 0])


@pytest.mark.parametrize(
    "labels",
    [CLASSES, CLASSES.astype(np.float32), CLASSES.astype(np.uint8), CLASSES[:, np.newaxis], np.eye(4)[CLASSES]],
    ids=["numbers", "floats", "bytes", "columns", "one-hot"],
)
def test_the_weight_of_each_label(labels: np.ndarray) -> None:
    batches = tf.data.Dataset.from_tensor_slices((np.zeros((5, 2)), labels)).batch(3)
    parts = [weight.numpy() for _, _, weight in weighted(batches, WEIGHTS)]
    assert np.concatenate(parts).tolist() == [0.5, 1.0, 5.0, 1.0, 0.5]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ((np.zeros((5, 2)), CLASSES, np.ones(5)), "Received: samples with weights of their own. Leave class_weight ou"),
        (np.zeros((5, 2)), "Received: samples with no label"),
        ((np.zeros((5, 2)), np.array(["a"] * 5)), "Expected labels that are numbers of classes, or one-hot"),
        ((np.zeros((5, 2)), np.zeros((5, 2, 2))), "Expected labels that are numbers of classes, or one-hot"),
        ((np.zeros((5, 2)), {"a": CLASSES}), "Expected labels that are numbers of classes, or one-hot"),
    ],
)
def test_what_cannot_be_weighted_is_refused(sample: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        weighted(tf.data.Dataset.from_tensor_slices(sample).batch(3), WEIGHTS)


@pytest.fixture(params=[1, 3], ids=lambda replicas: f"replicas={replicas}")
def strategy(request: pytest.FixtureRequest) -> tf.distribute.Strategy:
    """That of tfdist: two MirroredStrategies of the same devices and different dtypes clash in TensorFlow."""
    return tf.distribute.get_strategy() if request.param == 1 else mirrored(request.param)


def trained(strategy: tf.distribute.Strategy, data: Any, **options: Any) -> tuple[dict[str, list[float]], np.ndarray]:
    """History and weights of a small training."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(4, activation="softmax")])
        loss = "sparse_categorical_crossentropy"
        model.compile(keras.optimizers.SGD(0.5), loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
    history = model.fit(data, epochs=2, verbose=0, **options).history
    return history, np.concatenate([weight.numpy().ravel() for weight in model.weights])


@pytest.mark.parametrize("samples", [slow(64), 65])
def test_a_training_is_that_of_fit_with_class_weight(
    strategy: tf.distribute.Strategy, samples: int, tmp_path: Path
) -> None:
    keras_repairs.install()
    generator = np.random.default_rng(samples)
    x, y = generator.normal(size=(samples, 4)).astype(np.float32), generator.integers(0, 4, samples)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y)
    section = NpzSource(path=str(tmp_path / "a.npz"), split="train")
    plain = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    of_all = {number: WEIGHTS.get(number, 1.0) for number in range(4)}  # Keras takes them of all classes only
    expected = trained(tf.distribute.get_strategy(), plain, class_weight=of_all)
    batches = from_config(section, 16, 0, strategy, class_weight=WEIGHTS).batches
    received = trained(strategy, batches)
    for name, values in expected[0].items():
        assert received[0][name] == pytest.approx(values, rel=1e-5), name
    np.testing.assert_allclose(received[1], expected[1], rtol=1e-4, atol=1e-6)
    unweighted = trained(strategy, from_config(section, 16, 0, strategy).batches)
    assert unweighted[0]["loss"] != pytest.approx(expected[0]["loss"], rel=1e-2)


@pytest.mark.usefixtures("repaired")
def test_a_dataset_of_unknown_global_batches_is_refused() -> None:
    def make(_: tf.distribute.InputContext) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors((tf.zeros((2, 6)), tf.zeros(2, tf.int32)))

    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy")
        with pytest.raises(UnsupportedError, match="Give fit the tf.data.Dataset itself"):
            model.fit(mirrored(2).distribute_datasets_from_function(make), class_weight={0: 2.0}, verbose=0)
