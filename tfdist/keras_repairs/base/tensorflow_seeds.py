"""Seeds for TensorFlow's own random functions in a replica's step where a script gives none, shared by the replicas."""

from __future__ import annotations

import contextlib
import contextvars
import random
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src.backend.common import stateless_scope
from keras.src.random import seed_generator

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import setting
from tfdist.keras_repairs.base.global_seeds import make_generator

_OTHER_NUMBERS = 0x2545F491
"""What tells these seeds from those of Keras's global generator, which begins with the same one."""

_SEEDS = 2**31 - 1


@dataclass(frozen=True)
class SharedSeeds:
    """What the replicas of a strategy draw their seeds from.

    Attributes:
        generator: A `SeedGenerator` with a copy of its state for each replica.
        first: The seed that it began with, the same on all workers.
    """

    generator: Any
    first: int


class ReplicaSeeds:
    """The seeds that one replica takes while its code runs or is traced; all replicas take the same ones in turn."""

    def __init__(self, shared: SharedSeeds) -> None:
        self._shared = shared
        self._fixed = 0

    @property
    def state(self) -> Any:
        """The variable that `next` advances."""
        return self._shared.generator.state

    def next(self) -> tf.Tensor:
        """The next seed, [2], another one in every step."""
        seed: tf.Tensor = self._shared.generator.next()
        return seed

    def next_fixed(self) -> tuple[int, int]:
        """The next pair of seeds for an operation that has a state of its own, the same in every step."""
        self._fixed += 1
        return self._shared.first % _SEEDS, self._fixed


_SHARED: AttachedValue[SharedSeeds] = AttachedValue("shared_tensorflow_seeds")
_seeds: contextvars.ContextVar[ReplicaSeeds | None] = contextvars.ContextVar("tfdist_tensorflow_seeds", default=None)


def shared_seeds(strategy: tf.distribute.Strategy) -> SharedSeeds | None:
    """Those of `strategy`; called before its replicas run, outside of which alone variables can be made."""
    if stateless_scope.in_stateless_scope():
        return _SHARED.get(strategy)
    return _SHARED.get_or_make(strategy, lambda: _make(strategy))


def drawing_from(shared: SharedSeeds | None) -> contextlib.AbstractContextManager[None]:
    """Around the code of a replica: its seeds; None around code of which all is tried out and nothing is kept."""
    return setting(_seeds, None if shared is None else ReplicaSeeds(shared))


def seeds_of_replica() -> ReplicaSeeds | None:
    """The seeds of the replica whose code runs; None outside of one."""
    return _seeds.get()


def _make(strategy: tf.distribute.Strategy) -> SharedSeeds:
    # A script that draws from Python's generator draws as without tfdist.
    before = random.getstate()
    seed = seed_generator.make_default_seed() ^ _OTHER_NUMBERS
    random.setstate(before)
    generator = make_generator(strategy, seed, "tensorflow_seeds")
    with tf.init_scope():
        copies = strategy.experimental_local_results(generator.state.value)
        return SharedSeeds(generator, int(copies[0].numpy()[0]))
