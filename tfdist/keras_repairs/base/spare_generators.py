"""Seed generators of Keras with a copy of their state for each replica, made before the replicas run."""

from __future__ import annotations

import random
from typing import Any

import tensorflow as tf
from keras.src.random import seed_generator
from keras.src.utils.naming import auto_name
from tensorflow.python.eager import context


class SpareGenerator:
    """A generator that becomes the global one when a replica is the first to draw.

    Keras makes the global generator with the first draw and takes its seed from Python's `random`. In a replica that
    is too late: its variable has to be made outside, one copy for each replica. A spare one is made before the replicas
    run, which leaves `random` as it was; only the draw takes the next number, as on one device.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        before = random.getstate()
        self._seed = seed_generator.make_default_seed()
        random.setstate(before)
        self._generator = make_generator(strategy, self._seed)
        self._strategy = strategy
        self.is_taken = False

    def take(self) -> Any:
        """The generator; the first call seeds it."""
        if not self.is_taken:
            self.is_taken = True
            self._generator.name = auto_name(type(self._generator).__name__)
            seed = seed_generator.make_default_seed()
            if seed != self._seed:
                self._reseed(seed)
        return self._generator

    @property
    def generator(self) -> Any:
        """The generator, whether or not it is taken."""
        return self._generator

    @property
    def state(self) -> Any:
        """The generator's variable, whether or not it is taken."""
        return self._generator.state

    def _reseed(self, seed: int) -> None:
        # At once, though a step may be being traced: the variable was not used yet.
        with tf.init_scope():
            for state in self._strategy.experimental_local_results(self._generator.state.value):
                state.assign(tf.cast([seed, 0], state.dtype))


class BorrowedGenerator:
    """A spare generator for code that is tried out, which takes nothing: the first draw of a step is still to come."""

    def __init__(self, spare: SpareGenerator) -> None:
        self._spare = spare

    def take(self) -> Any:
        """The generator, unnamed and as it is."""
        return self._spare.generator

    @property
    def state(self) -> Any:
        """The generator's variable."""
        return self._spare.state


def make_generator(strategy: tf.distribute.Strategy, seed: int, name: str = "seed_generator") -> Any:
    """A `SeedGenerator` with a copy of its state for each replica; on several workers all begin with the chief's."""
    # Eagerly, under a graph of its own: a function being traced would count the variable as its own and be traced anew.
    with tf.Graph().as_default(), context.eager_mode(), strategy.scope():
        return seed_generator.SeedGenerator(seed, name=name)
