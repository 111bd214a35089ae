"""Logs of steps of one's own that no replica can give, and what callbacks get of those that are computed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.exactness.log_cases import OwnScore, right_ones
from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import numbers
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")

Logs = Callable[[Any, Any, Any, Any], dict[str, Any]]


def logging(logs: Logs) -> type[keras.Model]:
    class Logging(OwnStep):
        def measured(self, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
            self.loss_metric.update_state(loss)
            return logs(self, y, y_pred, loss)

    return Logging


def fit(logs: Logs, replicas: int, *, samples: int = 8, **settings: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(3)
    with (mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()).scope():
        model = of(logging(logs))
        model.compile("sgd", "sparse_categorical_crossentropy", **settings)
        return dict(model.fit(*numbers(samples), batch_size=4, verbose=0).history)


ARRAY = "Log tfdist.summed"
REFUSED = {
    "a whole number": (lambda model, y, p, loss: {"right": right_ones(y, p)}, {}, "int32"),
    "a whole number of an eager step": (lambda model, y, p, loss: {"n": ops.cast(loss, "int32")},
                                        {"run_eagerly": True}, "runs eagerly"),
    "a number of Python in an eager step": (lambda model, y, p, loss: {"n": len(y)}, {"run_eagerly": True}, "number 2"),
    "an array of an eager step": (lambda model, y, p, loss: {"n": ops.mean(p, axis=0)}, {"run_eagerly": True}, ARRAY),
    "a truth": (lambda model, y, p, loss: {"finite": ops.isfinite(loss)}, {}, "bool"),
    "the state of a metric": (lambda model, y, p, loss: {"d": model.loss_metric.total / model.loss_metric.count},
                              {}, r"variables of the metric 'own_loss'.* result\(\)"),
    "the state of a metric in an eager step": (
        lambda model, y, p, loss: {"d": ops.divide(model.loss_metric.total, model.loss_metric.count)},
        {"run_eagerly": True}, r"variables of the metric 'own_loss'.* result\(\)"),
    "the state of a metric as a number": (lambda model, y, p, loss: {"d": float(model.loss_metric.total) / 2},
                                          {"run_eagerly": True}, r"variables of the metric 'own_loss'"),
    "a result within a branch": (
        lambda model, y, p, loss: {"d": tf.cond(loss > 0, model.loss_metric.result, lambda: tf.zeros_like(loss))},
        {}, "Read it outside"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_logs_that_no_replica_can_give_are_refused(name: str) -> None:
    logs, settings, message = REFUSED[name]
    with pytest.raises(UnsupportedError, match=message):
        fit(logs, 2, **settings)
    assert fit(logs, 1, **settings)


def test_the_state_of_a_metric_that_is_not_logged_may_be_read() -> None:
    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        assert float(model.loss_metric.total) > 0
        return {"loss": model.loss_metric.result()}

    one, two = (fit(logs, replicas, samples=7, run_eagerly=True) for replicas in (1, 2))
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-6)


def test_a_result_may_be_read_in_a_function() -> None:
    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        return {"loss": tf.function(lambda: model.loss_metric.result())()}

    one, two = (fit(logs, replicas, samples=7) for replicas in (1, 2))
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-6)


def test_the_size_of_a_replicas_part_is_that_of_the_batch_where_it_is_a_number_too() -> None:
    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        return {"n": tf.shape(y)[0], "best": tf.argmax(y_pred, axis=1)}

    with mirrored(2).scope():
        model = of(logging(logs))
        model.compile("sgd", "sparse_categorical_crossentropy")
        received = model.train_on_batch(*numbers(8), return_dict=True)
    assert int(received["n"]) == 8
    assert received["best"].shape == (8,)


class Largest(keras.metrics.Metric):
    """Whose result is its variable."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.largest = self.add_weight(name="largest", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(keras.ops.cast(y_true, "float32"))))

    def result(self) -> Any:
        return self.largest


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_result_that_is_a_variable_is_that_of_the_training_after_a_validation(replicas: int) -> None:
    x, y = numbers(8)
    with mirrored(replicas).scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[Largest()])
        history = model.fit(x, y + 5, validation_data=(x, 0 * y), batch_size=4, verbose=0).history
    assert (history["largest"], history["val_largest"]) == ([float(y.max()) + 5], [0.0])


@pytest.mark.parametrize("samples", [8, 7, 1])
def test_a_number_of_python_is_that_of_the_global_batch(samples: int) -> None:
    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        return {"n": y.shape[0]}

    with mirrored(2).scope():
        model = of(logging(logs))
        model.compile("sgd", "sparse_categorical_crossentropy")
        assert model.train_on_batch(*numbers(samples), return_dict=True) == {"n": samples}


def test_a_step_that_needs_numbers_and_logs_a_size_runs_whole() -> None:
    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        return {"n": tf.shape(y)[0], "half": tf.reduce_mean(y_pred[: y.shape[0] // 2])}

    one, two = (fit(logs, replicas) for replicas in (1, 2))
    assert one["n"] == two["n"]
    np.testing.assert_allclose(two["half"], one["half"], rtol=1e-6)


def test_a_number_of_python_in_an_eager_step_is_taken_for_a_mean() -> None:
    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        return {"last": float(loss)}

    one, two = (fit(logs, replicas, samples=7, run_eagerly=True) for replicas in (1, 2))
    np.testing.assert_allclose(two["last"], one["last"], rtol=1e-6)


def test_a_step_that_logs_results_as_they_are_is_traced_once_and_sums_none() -> None:
    traced = []

    def logs(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        if tf.inside_function():
            # And not where it is tried out.
            traced.append(tf.distribute.get_replica_context().replica_id_in_sync_group)
        return {"under_another_name": model.loss_metric.result()}

    def of_a_score(model: Any, y: Any, y_pred: Any, loss: Any) -> dict[str, Any]:
        return {name: result + 1 for name, result in logs(model, y, y_pred, loss).items()}

    fit(logs, 2)
    assert len(traced) == 2
    fit(of_a_score, 2)
    # The first trace ends with the first replica that comes to its end.
    assert len(traced) in (2 + 3, 2 + 4)


def test_callbacks_follow_a_score_of_metrics(tmp_path: Path) -> None:
    """The file of `CSVLogger` and the epoch that `ModelCheckpoint` keeps are those of one replica."""

    def kept(replicas: int) -> tuple[list[list[float]], list[np.ndarray]]:
        folder = tmp_path / str(replicas)
        folder.mkdir()
        keras.utils.set_random_seed(3)
        with (mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()).scope():
            model = of(OwnScore)
            model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=3)
            best = keras.callbacks.ModelCheckpoint(
                folder / "best.weights.h5", monitor="val_score", mode="max", save_best_only=True, save_weights_only=True
            )
            table = keras.callbacks.CSVLogger(folder / "log.csv")
            validation = numbers(33, seed=6)
            model.fit(*numbers(65), 32, epochs=3, verbose=0, callbacks=[best, table], validation_data=validation)
            model.load_weights(folder / "best.weights.h5")
        rows = [line.split(",") for line in (folder / "log.csv").read_text().splitlines()]
        assert rows[0] == ["epoch", "right", "score", "val_right", "val_score"]
        return [[float(cell) for cell in row] for row in rows[1:]], model.get_weights()

    (one, weights), (two, same) = kept(1), kept(2)
    np.testing.assert_allclose(two, one, rtol=1e-5)
    for a, b in zip(weights, same, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)
