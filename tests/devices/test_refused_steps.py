"""Steps that replicas cannot share out, as their trace says: where first steps are checked, each runs whole instead."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import checking, mirrored, strictly
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")


class Mixing(keras.Model):
    """Mixes each sample with another one, which a shuffle of the numbers of the batch's rows chooses."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        order = tf.random.experimental.stateless_shuffle(tf.range(tf.shape(x)[0]), [3, 4])
        return super().train_step((0.7 * x + 0.3 * tf.gather(x, order), 0.7 * y + 0.3 * tf.gather(y, order)))


def mixing() -> keras.Model:
    return compiled(Mixing, metrics=["mae"])


def measured_along_the_samples() -> keras.Model:
    return compiled(keras.Model, metrics=[keras.metrics.CosineSimilarity(axis=0)])


def compiled(kind: type[keras.Model], **options: Any) -> keras.Model:
    keras.utils.set_random_seed(4)
    inputs = keras.Input((6,))
    model = kind(inputs, keras.layers.Dense(3)(keras.layers.Dropout(0.3, seed=2)(inputs)))
    model.compile(keras.optimizers.Adam(0.01), "mse", **options)
    return model


def outcome(make: Callable[[], keras.Model]) -> list[Any]:
    model = make()
    x, _ = numbers(33)
    history = model.fit(x, x[:, :3], batch_size=16, epochs=2, verbose=0).history
    return [*(history[name] for name in sorted(history)), *model.evaluate(x, x[:, :3], verbose=0), *model.get_weights()]


@pytest.mark.parametrize("make", [mixing, slow(measured_along_the_samples)])
def test_they_run_whole(make: Callable[[], keras.Model], caplog: pytest.LogCaptureFixture) -> None:
    expected = outcome(make)
    with mirrored(3).scope(), checking(mirrored(3)), caplog.at_level(logging.WARNING, "tfdist"):
        for one, several in zip(expected, outcome(make), strict=True):
            np.testing.assert_allclose(several, one, rtol=2e-5, atol=2e-6)
    assert "They cannot share it out: " in caplog.text


def test_strict_refuses_them_in_their_own_words() -> None:
    refused = pytest.raises(UnsupportedError, match=r"^tf\.random\.experimental\.stateless_shuffle of the numbers")
    with mirrored(2).scope(), checking(mirrored(2)), strictly(mirrored(2)), refused:
        outcome(mixing)


class MixingByTensorFlow(Mixing):
    """Draws numbers of Poisson's with a seed, too, of which nobody knows where one device would be."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        return super().train_step((x + tf.random.poisson(tf.shape(x), 3.0, x.dtype, seed=3), y))


def test_what_whole_steps_cannot_do_either_is_refused() -> None:
    refused = pytest.raises(UnsupportedError, match=r"tf\.random .* with a seed.*keras\.random")
    with mirrored(2).scope(), checking(mirrored(2)), refused:
        outcome(lambda: compiled(MixingByTensorFlow))
