"""`--strict`: what would be warned of is refused, and what is exact is not."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest
import tensorflow as tf

from tests.exactness.table import numbers
from tests.helpers.mirrored import mirrored, of_each_replica
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")


@pytest.fixture
def strict() -> Iterator[tf.distribute.Strategy]:
    strategy = mirrored(3)
    settings_of(strategy).strict = True
    warn_once.cache_clear()
    yield strategy
    settings_of(strategy).strict = False


def trained(strategy: tf.distribute.Strategy) -> None:
    x, y = numbers(8)
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization(), keras.layers.Dense(3)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(x.astype("float32"), y, verbose=0)


def test_what_is_exact_is_trained(strict: tf.distribute.Strategy) -> None:
    trained(strict)


def test_what_would_be_warned_of_is_refused(strict: tf.distribute.Strategy) -> None:
    with of_each_replica(strict), pytest.raises(UnsupportedError, match="--batch-norm replica.*refused with --strict"):
        trained(strict)
