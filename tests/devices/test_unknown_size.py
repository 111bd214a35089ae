"""Data of unknown size, of which plain Keras counts a step too many: said once, where that changes numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.repair_removal import take_out
from tests.exactness.later_classes import has
from tests.exactness.table import BATCH, numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.warn_once import warn_once

pytestmark = pytest.mark.usefixtures("repaired", "float64")

SAMPLES, BATCHES = 65, 3

Make = Callable[[], Any]
optimizers = keras.optimizers

AFFECTED: dict[str, tuple[Make, str]] = {
    "schedule": (
        lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 2, 0.9)),
        "the place in the schedule of the learning rate (ExponentialDecay)",
    ),
    "adam": (lambda: optimizers.Adam(0.05), "the steps that Adam counts in its updates"),
    "adamax": (lambda: optimizers.Adamax(0.05), "Adamax counts"),
    "nadam": (lambda: optimizers.Nadam(0.05), "Nadam counts"),
    "adafactor": (lambda: optimizers.Adafactor(0.05), "Adafactor counts"),
    "weight decay": (lambda: optimizers.SGD(0.1, weight_decay=0.01), "the weight decay"),
    "accumulation": (lambda: optimizers.SGD(0.1, gradient_accumulation_steps=2), "accumulated gradients"),
    "averages": (lambda: optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2), "averages overwrite"),
    "dropout": (lambda: optimizers.SGD(0.1), "random layers"),
}

if has("optimizers.Muon"):
    AFFECTED["muon"] = (lambda: optimizers.Muon(0.05), "Muon counts")
if has("optimizers.ScheduleFreeAdamW"):
    AFFECTED["schedule free"] = (lambda: optimizers.ScheduleFreeAdamW(0.05), "ScheduleFreeAdamW counts")

UNAFFECTED: dict[str, Make] = {
    "sgd": lambda: optimizers.SGD(0.1, momentum=0.9),
    "rmsprop": lambda: optimizers.RMSprop(0.05),
    "adagrad": lambda: optimizers.Adagrad(0.05),
    "adadelta": lambda: optimizers.Adadelta(0.5),
    "ftrl": lambda: optimizers.Ftrl(0.05),
    "lion": lambda: optimizers.Lion(0.01),
    "ema": lambda: optimizers.SGD(0.1, use_ema=True),
    "scaled": lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.05)),
}

QUICK = ("adam", "weight decay", "dropout", "sgd")


def some(names: Any) -> list[Any]:
    return [name if name in QUICK else slow(name) for name in names]


def unknown() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(numbers(SAMPLES)).batch(BATCH).filter(lambda x, y: True)


def weights(name: str, data: Any = None, **fit: Any) -> np.ndarray:
    """The weights after a fit of the model of that name."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(5)
    hidden = [keras.layers.Dense(8, "tanh"), *([keras.layers.Dropout(0.5)] if name == "dropout" else [])]
    model = keras.Sequential([keras.Input((6,)), *hidden, keras.layers.Dense(3)])
    optimizer = AFFECTED[name][0]() if name in AFFECTED else UNAFFECTED[name]()
    # Whether Keras compiles with XLA is not the matter.
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    model.fit(unknown() if data is None else data, **{"epochs": 3, "verbose": 0} | fit)
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """What was said of the data since."""
    warn_once.cache_clear()
    logger = logging.getLogger("tfdist")
    logger.addHandler(caplog.handler)

    def messages() -> list[str]:
        # pytest may have a record twice, by the root logger's handler, too.
        once = {id(record): record.getMessage() for record in caplog.records}
        return [message for message in once.values() if "how many batches" in message]

    yield messages
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize("name", some(AFFECTED))
def test_said_where_plain_keras_differs(
    name: str, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = weights(name)
    (message,) = said()
    assert AFFECTED[name][1] in message
    assert message.count("by a step an epoch") == 1
    take_out("TFEpochIterator._get_iterator", monkeypatch)
    assert np.abs(weights(name) - ours).max() > 1e-5


@pytest.mark.parametrize("name", some(UNAFFECTED))
def test_not_said_where_plain_keras_is_the_same(
    name: str, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = weights(name)
    assert said() == []
    take_out("TFEpochIterator._get_iterator", monkeypatch)
    np.testing.assert_allclose(weights(name), ours, rtol=1e-12)


def test_said_once_on_several_replicas(said: Callable[[], list[str]]) -> None:
    with mirrored(2).scope():
        weights("adam")
        weights("adam")
    assert len(said()) == 1


def generator() -> Iterator[Any]:
    while True:
        yield from unknown().as_numpy_iterator()


REMEDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "assert_cardinality": lambda: {"data": unknown().apply(tf.data.experimental.assert_cardinality(BATCHES))},
    "steps_per_epoch": lambda: {"data": generator(), "steps_per_epoch": BATCHES},
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_with_the_remedy_plain_keras_is_the_same(
    remedy: str, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = weights("adam", **REMEDIES[remedy]())
    with mirrored(2).scope():
        np.testing.assert_allclose(weights("adam", **REMEDIES[remedy]()), ours, rtol=1e-9)
    assert said() == []
    take_out("TFEpochIterator._get_iterator", monkeypatch)
    np.testing.assert_allclose(weights("adam", **REMEDIES[remedy]()), ours, rtol=1e-12)


def test_data_of_validation_may_be_of_unknown_size(said: Callable[[], list[str]]) -> None:
    known = tf.data.Dataset.from_tensor_slices(numbers(SAMPLES)).batch(BATCH)
    weights("adam", known, validation_data=unknown())
    assert said() == []
