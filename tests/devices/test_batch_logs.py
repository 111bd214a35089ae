"""Logs that callbacks and progress bars are given within an epoch, on several devices and on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.exactness.comparison import assert_same
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.fit_state import fit_state
from tfdist.keras_repairs.loop import batch_logs
from tfdist.keras_repairs.loop.batch_logs import _PeriodicReading

pytestmark = pytest.mark.usefixtures("repaired", "float64")

BATCH, EPOCHS, EXACT = 8, 2, 1e-12
Logs = Mapping[str, float] | None


class Seen(keras.callbacks.Callback):
    """Keeps the logs of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.trained: list[dict[str, float]] = []
        self.validated: list[dict[str, float]] = []

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.trained.append(dict(logs or {}))

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.validated.append(dict(logs or {}))


class Largest(keras.metrics.Metric):
    """Is no sum: each replica has all of it."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.value = self.add_weight(shape=(), initializer="zeros", name="value")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(ops.maximum(self.value, ops.max(ops.abs(y_pred))))

    def result(self) -> Any:
        return self.value


class OwnStep(keras.Model):
    """Logs a metric under another name, a score of two metrics, and a mean of the batch."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.error = keras.metrics.MeanSquaredError(name="error")

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(x, y, predicted)
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        self.error.update_state(y, predicted)
        return {"of this epoch": self.error.result(), "of this batch": ops.mean(ops.abs(y - predicted))}


def model_of(kind: Callable[..., keras.Model], **options: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    samples = keras.Input((3,))
    model = kind(inputs=samples, outputs=keras.layers.Dense(1, "sigmoid")(keras.layers.Dense(4, "tanh")(samples)))
    metrics = ["mae", keras.metrics.AUC(num_thresholds=11, name="auc"), Largest()] if kind is keras.Model else None
    model.compile(keras.optimizers.Adam(0.05), "mse", metrics=metrics, **options)
    return model


def trained(kind: Callable[..., keras.Model], samples: int, **options: Any) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(samples, 3)), generator.integers(0, 2, (samples, 1)).astype(float)
    seen, evaluated, model = Seen(), Seen(), model_of(kind, **options)
    given = {"batch_size": BATCH, "verbose": 0}
    model.fit(x, y, epochs=EPOCHS, validation_data=(x, y), validation_batch_size=5, callbacks=[seen], **given)
    if kind is keras.Model:
        model.evaluate(x, y, callbacks=[evaluated], **given)
    assert not fit_state(model).train_logs and not fit_state(model).test_logs
    return {"trained": seen.trained, "validated": seen.validated, "evaluated": evaluated.validated}


@pytest.mark.parametrize("replicas", [2, slow(3)])
@pytest.mark.parametrize("samples", [41, slow(40)])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (keras.Model, {}),
        slow(keras.Model, {"steps_per_execution": 3}),
        slow(keras.Model, {"run_eagerly": True}),
        (OwnStep, {}),
    ],
)
def test_logs_of_batches_are_those_of_one_device(
    kind: Callable[..., keras.Model], options: dict[str, Any], samples: int, replicas: int
) -> None:
    """Of the metrics of `compile`, whether they add up or not, and of a step of one's own."""
    alone = trained(kind, samples, **options)
    assert len(alone["trained"]) >= 4 and "loss" in alone["validated"][0] and alone["trained"][0]
    with mirrored(replicas).scope():
        assert_same(alone, trained(kind, samples, **options), "logs", EXACT)


class Bar(keras.callbacks.ProgbarLogger):
    """Keeps the numbers that it is to show."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[dict[str, float]] = []

    def _update_progbar(self, batch: int, logs: Logs = None) -> None:
        self.shown.append(dict(logs or {}))


def shown() -> dict[str, float]:
    """In the last batch: where several steps run in one execution, a bar is given the numbers of the last."""
    bar, x = Bar(), np.random.default_rng(1).normal(size=(41, 3))
    model_of(keras.Model).fit(x, (x[:, :1] > 0).astype(float), batch_size=BATCH, verbose=0, callbacks=[bar])
    return bar.shown[-1]


def test_a_progress_bar_shows_those_of_one_device() -> None:
    alone = shown()
    with mirrored(2).scope():
        assert_same(alone, shown(), "bar", EXACT)


class Periodic(keras.callbacks.Callback):
    """Reads logs periodically, and keeps those that it knows after each execution, by batch."""

    ignores_batches = True
    reads_logs_periodically = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, Logs] = {}

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if not fit_state(self.model).unreported_steps():
            self.seen[batch] = fit_state(self.model).periodic_logs


@pytest.mark.parametrize("kind", [keras.Model, OwnStep])
def test_periodic_logs_are_those_of_one_device(
    kind: Callable[..., keras.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_logs, "PERIOD_SECONDS", 0.0)
    monkeypatch.setattr(batch_logs, "READING_SHARE", float("inf"))
    x = np.random.default_rng(1).normal(size=(101, 3))
    given: dict[str, Any] = {"y": (x[:, :1] > 0).astype(float), "batch_size": BATCH, "verbose": 0}
    alone, seeing = Seen(), Periodic()
    model_of(kind).fit(x, callbacks=[alone], **given)
    with mirrored(2).scope():
        model = model_of(kind)
        model.fit(x, callbacks=[seeing], **given)
    assert len(seeing.seen) >= 4
    for batch, logs in seeing.seen.items():
        assert_same(alone.trained[batch], logs, f"logs of batch {batch}", EXACT)
    model.fit(x, **given)
    assert fit_state(model).periodic_logs is None


@pytest.mark.parametrize("options", [{}, {"steps_per_epoch": 4}])
def test_logs_are_read_at_the_end_of_each_epoch(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_logs, "PERIOD_SECONDS", 1e9)
    x = np.random.default_rng(1).normal(size=(101, 3))
    batches = tf.data.Dataset.from_tensor_slices((x, (x[:, :1] > 0).astype(float))).batch(BATCH)
    given: dict[str, Any] = {"epochs": 2, "verbose": 0, **options}
    alone, seeing = Seen(), Periodic()
    model_of(keras.Model).fit(batches, callbacks=[alone], **given)
    with mirrored(2).scope():
        model_of(keras.Model).fit(batches, callbacks=[seeing], **given)
    assert_same(alone.trained[-1], seeing.seen[max(seeing.seen)], "the last logs", EXACT)


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("execution", "reading", "epoch", "readings"),
    [
        (0.01, 0.0, 3000, range(28, 38)),  # once a second, of 3,000
        (2.0, 0.0, 3000, range(3000, 3001)),
        (0.01, 0.7, 3000, range(4, 14)),  # which takes 0.7 s, every 35 s at most
        (0.01, 0.7, 500, range(9, 20)),  # and at the end of each epoch
        (0.05, 2.0, 3000, range(4, 14)),
    ],
)
def test_periodic_readings_take_little_time(
    monkeypatch: pytest.MonkeyPatch, execution: float, reading: float, epoch: int, readings: range
) -> None:
    clock, seen = Clock(), 0
    monkeypatch.setattr(batch_logs, "time", clock)
    periodic = _PeriodicReading(tf.distribute.get_strategy())
    for number in range(1, 3001):
        clock.seconds += execution
        if periodic.is_due(at_end=number % epoch == 0):
            seen += 1
            with periodic.reading():
                clock.seconds += reading
    assert seen in readings


class Nesting(Periodic):
    """Evaluates and predicts within an epoch."""

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        self.model.evaluate(np.ones((3, 3)), np.ones((3, 1)), verbose=0)
        self.model.predict(np.ones((3, 3)), verbose=0)


def test_what_was_seen_stays_while_a_callback_evaluates() -> None:
    nesting, x = Nesting(), np.random.default_rng(1).normal(size=(41, 3))
    with mirrored(2).scope():
        model_of(keras.Model).fit(x, (x[:, :1] > 0).astype(float), batch_size=BATCH, verbose=0, callbacks=[nesting])
    assert nesting.seen and all(nesting.seen.values())
