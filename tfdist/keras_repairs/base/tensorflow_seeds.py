"""Seeds of TensorFlow's own random functions in a replica's step, shared by the replicas.

Where a script gives none they are tfdist's. Where it does, an operation of `tf.random` has a state of its own in plain
Keras, for as long as the function of the step is there: a place in the numbers of Philox that its two seeds begin. What
counts here is that place, for each operation of a step.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.common import stateless_scope
from keras.src.random import seed_generator

from tfdist.keras_repairs.base.attached_value import AttachedValue
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.draw_streams import ReplicaSeeds, ReplicaStreams, SharedSeeds
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE
from tfdist.keras_repairs.base.spare_generators import make_generator

_OTHER_NUMBERS = 0x2545F491
"""The number that tells these seeds from those of Keras's global generator, which begins with the same one."""

_SHARED: AttachedValue[SharedSeeds] = AttachedValue("shared_tensorflow_seeds")


def shared_seeds(strategy: tf.distribute.Strategy) -> SharedSeeds | None:
    """Those of `strategy`; called before its replicas run, outside of which alone variables can be made."""
    if stateless_scope.in_stateless_scope():
        return _SHARED.get(strategy)
    return _SHARED.get_or_make(strategy, lambda: _make(strategy))


def drawing_from(
    shared: SharedSeeds | None, common: dict[tuple[int, int], Any] | None = None
) -> contextlib.AbstractContextManager[None]:
    """Around the code of a replica: its seeds; None around code of which all is tried out and nothing is kept.

    Args:
        shared: The seeds.
        common: One dictionary for all replicas that run the code together.
    """
    seeds = None if shared is None else ReplicaSeeds(shared, {} if common is None else common)
    return changing(REPLICA_SCOPE, tensorflow_seeds=seeds)


def once_on_worker(owner: Any, compute: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Returns what the first of this worker's replicas computes, for all of them; they come here in turn, equally
    often.

    Args:
        owner: Of whom the code asks; each counts its own.
        compute: Computes it.
    """
    seeds = REPLICA_SCOPE.get().tensorflow_seeds
    return compute() if seeds is None else seeds.once(owner, compute)


def seeds_of_replica() -> ReplicaSeeds | None:
    """The seeds of the replica whose code runs; None outside of one."""
    return REPLICA_SCOPE.get().tensorflow_seeds


def draw_by(streams: ReplicaStreams | None) -> None:
    """Has the replica whose code runs draw with seeds of the script's from these streams."""
    seeds = REPLICA_SCOPE.get().tensorflow_seeds
    if seeds is not None:
        seeds.streams = streams


def _make(strategy: tf.distribute.Strategy) -> SharedSeeds:
    # A script that draws from Python's generator draws as without tfdist.
    before = random.getstate()
    seed = seed_generator.make_default_seed() ^ _OTHER_NUMBERS
    random.setstate(before)
    generator = make_generator(strategy, seed, "tensorflow_seeds")
    with tf.init_scope():
        copies = strategy.experimental_local_results(generator.state.value)
        return SharedSeeds(generator, int(copies[0].numpy()[0]))
