"""Metrics of people's own over trainings, evaluations and loops by hand: added up over the replicas, or gathered."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.devices.own_metrics import (
    ADDED_UP,
    FUNCTIONS,
    GATHERED,
    Hits,
    Least,
    MeanOfBatches,
    MostHits,
    PeakRatioOfBatches,
    State,
)
from tests.exactness.comparison import assert_same
from tests.exactness.table import classifier, numbers
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES, BATCH = 65, 32


def measured() -> dict[str, Any]:
    """All metrics over a training, an evaluation and, where they have been tried out already, another training."""
    keras.utils.set_random_seed(11)
    x, y = numbers(SAMPLES)
    y = keras.utils.to_categorical(y, 3)
    model = classifier()
    metrics = [metric(name=metric.__name__) for metric in (*ADDED_UP, *GATHERED)]
    model.compile("sgd", "categorical_crossentropy", metrics=[*metrics, *FUNCTIONS])
    fit = functools.partial(model.fit, x, y, batch_size=BATCH, shuffle=False, verbose=0)
    first = fit().history
    evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    return {"first": first, "evaluated": evaluated, "second": fit().history}


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [2, 3])
def test_each_is_exact(replicas: int) -> None:
    expected = measured()
    assert {metric.__name__ for metric in (*ADDED_UP, *GATHERED)} <= expected["first"].keys()
    with mirrored(replicas).scope():
        assert_same(expected, measured())


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What tfdist logs."""
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)
    caplog.set_level(logging.INFO, "tfdist")
    yield caplog
    logger.removeHandler(caplog.handler)


def test_one_line_says_what_is_gathered(said: pytest.LogCaptureFixture) -> None:
    x, y = numbers(8)
    with mirrored(2).scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=[Hits(name="hits"), MostHits(name="most")])
        model.fit(x, y, epochs=2, verbose=0)
        model.evaluate(x, y, verbose=0)
    (line,) = {record.getMessage() for record in said.records if "computed on the rows of all replicas" in record.msg}
    assert "'most' (MostHits) is no sum over samples" in line


class OfNumbers(State):
    def update_state(self, numbers: Any) -> None:
        self.state.assign(ops.maximum(self.state, tf.reduce_max(tf.cast(numbers, self.dtype))))


def test_what_cannot_be_gathered_is_refused() -> None:
    with mirrored(2).scope():
        metric = OfNumbers(name="bytes")
        numbers = tf.quantization.quantize([1.0, 2.0], 0.0, 2.0, tf.qint8).output
        with pytest.raises(UnsupportedError, match="'bytes'.*qint8"):
            mirrored(2).run(tf.function(lambda: metric.update_state(numbers)))


def test_a_metric_keeps_its_signature() -> None:
    assert inspect.signature(Hits().update_state) == inspect.signature(functools.partial(Hits.update_state, None))


class LossOfRows(keras.metrics.Metric):
    """The mean over the samples of a loss of Keras's: of its sum, or of its mean over a batch times the samples."""

    def __init__(self, reduction: str) -> None:
        super().__init__(name=f"loss_of_{reduction}")
        self.loss = keras.losses.MeanSquaredError(reduction=reduction)
        self.total = self.add_variable((), "zeros", name="total")
        self.samples = self.add_variable((), "zeros", name="samples")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        samples = ops.cast(ops.shape(y_true)[0], self.dtype)
        self.total.assign_add(self.loss(y_true, y_pred) * (1.0 if self.loss.reduction == "sum" else samples))
        self.samples.assign_add(samples)

    def result(self) -> Any:
        return self.total / self.samples


def numbers_of_a_loop(strategy: tf.distribute.Strategy | None) -> list[float]:
    """Two epochs of a loop by hand, whose global batches have 5 rows."""
    data = np.random.default_rng(4).normal(size=(10, 3))
    metrics = [MostHits(), MeanOfBatches(), PeakRatioOfBatches(), Least(), Hits()]
    metrics += [LossOfRows(reduction) for reduction in ("sum", "sum_over_batch_size")]

    def step(rows: tf.Tensor) -> None:
        for metric in metrics:
            metric.update_state(tf.roll(rows, 1, axis=1), rows)

    def on_rows(rows: np.ndarray) -> None:
        if strategy is None:
            step(tf.constant(rows))
            return
        cut = [(0, 1), (1, 5)]
        strategy.run(
            tf.function(step),
            (strategy.experimental_distribute_values_from_function(
                lambda context: tf.constant(rows[slice(*cut[context.replica_id_in_sync_group])])
            ),),
        )  # fmt: skip

    results = []
    for _ in range(2):
        for metric in metrics:
            metric.reset_state()
        for start in (0, 5):
            on_rows(data[start : start + 5])
        results += [float(metric.result()) for metric in metrics]
    return results


def test_loops_by_hand() -> None:
    expected = numbers_of_a_loop(None)
    with mirrored(2).scope():
        np.testing.assert_allclose(numbers_of_a_loop(mirrored(2)), expected, rtol=1e-9)
