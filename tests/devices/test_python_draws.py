"""Numbers of NumPy's and Python's generators in a step: refused, wherever they are drawn, and elsewhere as ever."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.repair_removal import take_out
from tests.exactness.own_step_cases import OwnStep, of
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")

layers = keras.layers
DRAWS = {
    "numpy.random.normal": lambda _: np.random.normal(0.5, 2.0),
    "random.gauss": lambda _: random.gauss(0.5, 2.0),
    "a numpy.Generator": lambda owner: owner.dice.normal(),
    "a random.Random": lambda owner: owner.coins.random(),
}


class Noisy(layers.Layer):
    """Multiplies by a number that Python draws."""

    def __init__(self, draw: Callable[[Any], float]) -> None:
        super().__init__()
        self.draw, self.dice, self.coins = draw, np.random.default_rng(3), random.Random(4)

    def call(self, x: Any) -> Any:
        return x * self.draw(self)


class NoisyStep(OwnStep):
    """Adds noise to its data."""

    def __init__(self, *args: Any, draw: Callable[[Any], float], **options: Any) -> None:
        super().__init__(*args, **options)
        self.draw, self.dice, self.coins = draw, np.random.default_rng(3), random.Random(4)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        return super().train_step((x * self.draw(self), y))


def of_layer(draw: Callable[[Any], float]) -> keras.Model:
    return keras.Sequential([keras.Input((6,)), Noisy(draw), layers.Dense(3, activation="softmax")])


def of_step(draw: Callable[[Any], float]) -> keras.Model:
    return of(lambda *parts: NoisyStep(*parts, draw=draw))


def fitted(make: Callable[[Any], keras.Model], draw: str, replicas: int, **compiled: Any) -> list[np.ndarray]:
    keras.utils.set_random_seed(3)
    with (mirrored(replicas) if replicas > 1 else tf.distribute.get_strategy()).scope():
        model = make(DRAWS[draw])
        model.compile("sgd", "sparse_categorical_crossentropy", **compiled)
        model.fit(*numbers(8), batch_size=8, verbose=0)
        return list(model.get_weights())


@pytest.mark.parametrize("eagerly", [slow(True), False])
@pytest.mark.parametrize("make", [of_layer, of_step])
@pytest.mark.parametrize("draw", DRAWS)
def test_draws_are_refused(draw: str, make: Callable[[Any], keras.Model], eagerly: bool) -> None:
    assert fitted(make, draw, 1, run_eagerly=eagerly)
    with pytest.raises(UnsupportedError, match=rf"drawn by {draw} in a step.*keras\.random"):
        fitted(make, draw, 2, run_eagerly=eagerly)


def test_draws_are_refused_where_nothing_is_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_of(mirrored(2)), "gather", False)
    with pytest.raises(UnsupportedError, match=r"numpy\.random\.normal"):
        fitted(of_layer, "numpy.random.normal", 2)


def test_without_the_refusal_numbers_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_of(mirrored(2)), "gather", False)
    take_out("numpy.random.normal", monkeypatch)
    one, two = (fitted(of_layer, "numpy.random.normal", replicas)[0] for replicas in (1, 2))
    assert not np.allclose(one, two, rtol=1e-3)


def test_the_data_may_draw() -> None:
    """While steps are tried out and traced, in threads of TensorFlow's and of Keras's."""

    class Drawn(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> Any:
            return np.random.normal(size=(4, 6)), np.random.randint(0, 3, 4)

    with mirrored(2).scope():
        model = of(OwnStep)
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(Drawn(workers=2), verbose=0)
        model.fit((Drawn()[0] for _ in range(8)), steps_per_epoch=8, verbose=0)


def test_outside_of_steps_all_is_as_ever() -> None:
    np.random.seed(5)
    random.seed(5)
    first = np.random.normal(size=3), random.sample(range(9), 4)
    assert np.random.RandomState(5).normal(size=3).tolist() == first[0].tolist()
    assert random.Random(5).sample(range(9), 4) == first[1]
    assert pickle.loads(pickle.dumps(np.random.normal)) is np.random.normal
