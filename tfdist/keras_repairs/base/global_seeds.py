"""Keras's global seed generator, from which `keras.random` draws where no seed is given, shared by the replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.common import global_state, stateless_scope
from keras.src.utils.naming import auto_name

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE
from tfdist.keras_repairs.base.spare_generators import BorrowedGenerator, SpareGenerator, make_generator

Function = Callable[..., Any]

_NAME = "global_seed_generator"


_SPARE: AttachedValue[SpareGenerator] = AttachedValue("spare_seed_generator")


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
    return changing(REPLICA_SCOPE, keras_seeds=spare)


def borrowing() -> contextlib.AbstractContextManager[None]:
    """Around code that is tried out: a spare generator that it draws from stays a spare one."""
    spare = REPLICA_SCOPE.get().keras_seeds
    return changing(REPLICA_SCOPE, keras_seeds=BorrowedGenerator(spare) if isinstance(spare, SpareGenerator) else spare)


def state_in_replica() -> Any:
    """The variable of the generator from which the replica being traced draws without a seed; None outside of one."""
    generator = global_state.get_global_attribute(_NAME) or REPLICA_SCOPE.get().keras_seeds
    return None if generator is None else generator.state


def global_seed_generator(original: Function) -> Function:
    """Repairs `seed_generator.global_seed_generator`: all replicas have one generator, with a copy of its state each.

    Each would otherwise make its own, in every trace, which TensorFlow refuses.
    """

    def repaired() -> Any:
        spare = REPLICA_SCOPE.get().keras_seeds
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


def _continued(strategy: tf.distribute.Strategy, generator: Any) -> Any:
    with tf.init_scope():
        state = generator.state.value.numpy()
    continued = make_generator(strategy, int(state[0]), generator.name)
    with tf.init_scope():
        for copy in strategy.experimental_local_results(continued.state.value):
            copy.assign(state)
    return continued
