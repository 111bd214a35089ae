"""Keras's global seed generator, from which `keras.random` draws where no seed is given, shared by the replicas."""

from __future__ import annotations

import contextlib
import contextvars
import random
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.common import global_state, stateless_scope
from keras.src.random import seed_generator
from keras.src.utils.naming import auto_name
from tensorflow.python.eager import context

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import setting

Function = Callable[..., Any]

_NAME = "global_seed_generator"


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


_SPARE: AttachedValue[SpareGenerator] = AttachedValue("spare_seed_generator")
_seeds: contextvars.ContextVar[SpareGenerator | BorrowedGenerator | None] = contextvars.ContextVar(
    "tfdist_seeds", default=None
)


def shared_seeds(strategy: tf.distribute.Strategy) -> SpareGenerator | None:
    """Sees to it that replicas of `strategy` can draw from Keras's global generator; called before they run.

    A generator that was made outside of the strategy has one variable, which each replica would advance for the others:
    one that continues it takes its place.

    Returns:
        The generator to become the global one with the first draw, where there is none yet.
    """
    if stateless_scope.in_stateless_scope():
        # Nothing can be made in it, and states are the scope's.
        return None
    generator = global_state.get_global_attribute(_NAME)
    if generator is None:
        spare = _SPARE.get(strategy)
        if spare is None or spare.is_taken:
            spare = SpareGenerator(strategy)
            _SPARE.set(strategy, spare)
        return spare
    if not isinstance(generator.state.value, tf.distribute.DistributedValues):
        global_state.set_global_attribute(_NAME, _continued(strategy, generator))
    return None


def drawing_from(spare: SpareGenerator | None) -> contextlib.AbstractContextManager[None]:
    """Around the code of a replica: a global generator that it lacks is `spare`."""
    return setting(_seeds, spare)


def borrowing() -> contextlib.AbstractContextManager[None]:
    """Around code that is tried out: a spare generator that it draws from stays a spare one."""
    spare = _seeds.get()
    return setting(_seeds, BorrowedGenerator(spare) if isinstance(spare, SpareGenerator) else spare)


def state_in_replica() -> Any:
    """The variable of the generator from which the replica being traced draws without a seed; None outside of one."""
    generator = global_state.get_global_attribute(_NAME) or _seeds.get()
    return None if generator is None else generator.state


def global_seed_generator(original: Function) -> Function:
    """Repairs `seed_generator.global_seed_generator`: all replicas have one generator, with a copy of its state each.

    Each would otherwise make its own, in every trace, which TensorFlow refuses.
    """

    def repaired() -> Any:
        spare = _seeds.get()
        if spare is not None and global_state.get_global_attribute(_NAME) is None:
            global_state.set_global_attribute(_NAME, spare.take())
        return original()

    return repaired


def taken() -> Any:
    """The generator that Keras draws from in this thread; None before the first draw."""
    return global_state.get_global_attribute(_NAME)


def put_back(generator: Any) -> None:
    """Has Keras draw from a generator in this thread that a replica has taken, and counts its name."""
    auto_name(type(generator).__name__)
    global_state.set_global_attribute(_NAME, generator)


def make_generator(strategy: tf.distribute.Strategy, seed: int, name: str = "seed_generator") -> Any:
    """A `SeedGenerator` with a copy of its state for each replica; on several workers all begin with the chief's."""
    # Eagerly, under a graph of its own: a function being traced would count the variable as its own and be traced anew.
    with tf.Graph().as_default(), context.eager_mode(), strategy.scope():
        return seed_generator.SeedGenerator(seed, name=name)


def _continued(strategy: tf.distribute.Strategy, generator: Any) -> Any:
    with tf.init_scope():
        state = generator.state.value.numpy()
    continued = make_generator(strategy, int(state[0]), generator.name)
    with tf.init_scope():
        for copy in strategy.experimental_local_results(continued.state.value):
            copy.assign(state)
    return continued
