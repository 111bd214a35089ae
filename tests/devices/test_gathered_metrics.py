"""Metrics that are no sums over samples have, gathered, the values of one replica."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.comparison import assert_same
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import gathered
from tfdist.errors import UsageError

pytestmark = pytest.mark.usefixtures("repaired")

BATCH = 32
SIZES = [slow(2, 64), (2, 65), slow(3, 65)]
"""Replicas and samples. With 65 the last batch is one sample, and all replicas but one have none."""


@keras.saving.register_keras_serializable("tests")
class LargestError(keras.metrics.Metric):
    """A maximum, weighted where there are weights."""

    def __init__(self, name: str = "largest", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        error = tf.reduce_max(tf.abs(tf.cast(y_true, self.dtype) - tf.cast(y_pred, self.dtype)), axis=-1)
        if sample_weight is not None:
            error *= tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(error)))

    def result(self) -> Any:
        return tf.convert_to_tensor(self.largest)


class Extremes(keras.metrics.Metric):
    """Starts with values that are not zero, and has several results, and a variable without elements."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.low = self.add_variable((), keras.initializers.Constant(2.0), name="low")
        self.product = self.add_variable((2,), "ones", name="product")
        self.nothing = self.add_variable((0,), "zeros", name="nothing")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.low.assign(tf.minimum(self.low, tf.cast(tf.reduce_min(y_pred), self.dtype)))
        self.product.assign(self.product * (1.0 + tf.cast(tf.reduce_mean(y_pred), self.dtype)))

    def reset_state(self) -> None:
        self.low.assign(2.0)
        self.product.assign([1.0, 1.0])

    def result(self) -> Any:
        return {"low": tf.convert_to_tensor(self.low), "product": self.product[1]}


class MeanOfLargest(keras.metrics.Mean):
    """Keras's mean of one number a batch, each counted once."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(tf.reduce_max(y_pred))


def median_error(y_true: Any, y_pred: Any) -> Any:
    ordered = tf.sort(tf.reshape(tf.abs(tf.cast(y_true, y_pred.dtype) - y_pred), [-1]))
    return ordered[tf.size(ordered) // 2]


def data(samples: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(samples, 6)), np.eye(3)[generator.integers(0, 3, samples)]


def classifier() -> keras.Model:
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")],
    )


def outcome(samples: int, **fit: Any) -> dict[str, Any]:
    """The results of a fit with validation, an evaluation and two single batches."""
    keras.utils.set_random_seed(11)
    model = classifier()
    metrics = [gathered(metric) for metric in (LargestError(), Extremes(), MeanOfLargest(), median_error)]
    metrics += [gathered(keras.metrics.F1Score(name="f1")), gathered(keras.metrics.AUC(name="auc"))]
    weighted = [gathered(LargestError("largest_weighted")), gathered(keras.metrics.CategoricalAccuracy("right"))]
    model.compile("sgd", "categorical_crossentropy", metrics=metrics, weighted_metrics=weighted)
    x, y = data(samples)
    weight = np.random.default_rng(8).uniform(size=samples)
    options = {"sample_weight": weight, "batch_size": BATCH, "epochs": 2, "validation_data": data(33, seed=6)}
    history = model.fit(x, y, **options, verbose=0, **fit).history
    return {
        "history": history,
        "evaluate": model.evaluate(x, y, batch_size=BATCH, return_dict=True, verbose=0),
        "train_on_batch": model.train_on_batch(x[:5], y[:5], return_dict=True),
        "test_on_batch": model.test_on_batch(x[:2], y[:2], return_dict=True),
    }


@functools.cache
def of_one_replica(samples: int) -> dict[str, Any]:
    return outcome(samples)


@pytest.mark.parametrize(("replicas", "samples"), SIZES)
def test_numbers_of_one_replica(replicas: int, samples: int, float64: None) -> None:
    expected = of_one_replica(samples)
    assert len(expected["history"]) == 2 * (1 + 4 + 2 + 2 + 1), "some metric said nothing"
    with mirrored(replicas).scope():
        actual = outcome(samples)
    assert_same(expected, actual)


def test_the_mask_of_predictions_is_gathered(float64: None) -> None:
    generator = np.random.default_rng(3)
    ids = generator.integers(1, 20, (33, 7))
    ids[np.arange(7) >= generator.integers(1, 8, 33)[:, None]] = 0

    def accuracy() -> dict[str, float]:
        keras.utils.set_random_seed(4)
        model = keras.Sequential(
            [
                keras.Input((7,)),
                keras.layers.Embedding(20, 4, mask_zero=True),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
        metric = gathered(keras.metrics.SparseCategoricalAccuracy(name="right"))
        model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=[metric])
        return model.evaluate(ids, ids % 3, batch_size=BATCH, return_dict=True, verbose=0)

    expected = accuracy()
    with mirrored(3).scope():
        assert_same(expected, accuracy())


class Total(keras.metrics.Metric):
    """Adds up its arguments, of any structure."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.total = self.add_variable((3,), "zeros", name="total")

    def update_state(self, values: Any) -> None:
        flat = values["ragged"].flat_values
        parts = [tf.reduce_sum(flat), tf.reduce_sum(tf.cast(values["flags"], tf.float32)), values["scalar"]]
        self.total.assign_add(tf.stack([tf.cast(part, tf.float32) for part in parts]))

    def result(self) -> Any:
        return self.total


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16", "uint8"])
def test_structures_of_unequal_rows_in_a_custom_loop(dtype: str) -> None:
    """Replica 0 has no row, replica 1 one, replica 2 two."""
    strategy = mirrored(3)
    with strategy.scope():
        metric = gathered(Total())

    def step() -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        rows = tf.range(tf.convert_to_tensor(replica))
        values = {
            "ragged": tf.RaggedTensor.from_row_lengths(tf.cast(tf.repeat(rows + 1, 2), dtype), tf.repeat(2, replica)),
            "flags": tf.ones((tf.size(rows), 2), tf.bool),
            "scalar": 1.0,
            "nothing": None,
        }
        metric.update_state(values)
        return metric.result()

    seen = strategy.experimental_local_results(strategy.run(tf.function(step)))
    for result in (*seen, metric.result()):
        assert np.asarray(result).tolist() == [2 + 6, 6, 1]
    metric.reset_state()
    assert np.asarray(metric.result()).tolist() == [0, 0, 0]


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    x, y = data(33)
    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "categorical_crossentropy", metrics=[gathered(LargestError())])
        model.fit(x, y, verbose=0)
        model.save(tmp_path / "model.keras")
        said = model.evaluate(x, y, return_dict=True, verbose=0)
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        assert loaded.evaluate(x, y, return_dict=True, verbose=0) == said
    alone = keras.saving.load_model(tmp_path / "model.keras")
    assert alone.evaluate(x, y, return_dict=True, verbose=0) == pytest.approx(said)


def test_early_stopping_knows_which_way_is_better() -> None:
    x, y = data(33)
    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "categorical_crossentropy", metrics=[gathered(keras.metrics.AUC(name="auc"))])
        stopping = keras.callbacks.EarlyStopping("auc", patience=3)
        history = model.fit(x, y, epochs=2, callbacks=[stopping], verbose=0).history
    assert float(stopping.best) == max(history["auc"])


@pytest.mark.parametrize("metric", ["auc", keras.metrics.AUC, None])
def test_what_is_no_metric_is_an_error(metric: Any) -> None:
    with pytest.raises(UsageError, match="an instance, such as"):
        gathered(metric)
