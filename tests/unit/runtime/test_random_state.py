"""The random states of a process, read, disturbed and given back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.runtime import random_state
from tfdist.training.libraries import seed_all


def operations() -> list[int]:
    """An order that depends on the seed which TensorFlow gives to its next operation."""
    return [int(number) for number in tf.data.Dataset.range(50).shuffle(50)]


DRAWS: dict[str, Callable[[], Any]] = {
    "Python": random.random,
    "a pair of Python's": lambda: random.gauss(0.0, 1.0),
    "NumPy": lambda: np.random.random(3).tolist(),
    "a pair of NumPy's": lambda: np.random.standard_normal(),
    "an unseeded generator of NumPy's": lambda: np.random.default_rng().random(),
    "TensorFlow's operations": operations,
    "TensorFlow's global generator": lambda: tf.random.get_global_generator().uniform([3]).numpy().tolist(),
}


@pytest.fixture(autouse=True)
def seeded() -> Any:
    before = np.random.bit_generator.randbits  # type: ignore[attr-defined]
    seed_all(7)
    yield
    np.random.bit_generator.randbits = before  # type: ignore[attr-defined]


@pytest.mark.parametrize("draws", [0, 1, 3])
def test_what_is_drawn_after_a_state_is_drawn_again_when_it_is_given_back(draws: int) -> None:
    strategy = tf.distribute.get_strategy()
    for draw in DRAWS.values():
        for _ in range(draws):
            draw()
    # A generator that nobody has used yet has no state.
    tf.random.get_global_generator()
    states = random_state.read(strategy)
    first = {name: draw() for name, draw in DRAWS.items()}
    random_state.write(states, strategy)
    assert {name: draw() for name, draw in DRAWS.items()} == first


def test_they_are_numbers_alone() -> None:
    states = random_state.read(tf.distribute.get_strategy())
    assert states.dtype == np.uint32 and states.shape[0] == 1


def test_nothing_is_taken_from_the_states_by_reading_them() -> None:
    strategy = tf.distribute.get_strategy()
    np.testing.assert_array_equal(random_state.read(strategy), random_state.read(strategy))
