"""The seeds of random draws: the same on every replica in a step of Keras's, apart in a loop that a script writes.

In the steps of `fit`, `evaluate` and `predict` each replica draws its rows of one draw. Which rows a replica has is not
known in a loop that calls `strategy.run` itself: there each replica draws its own numbers, reproducibly from the seed.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import ReplicaStep, current_step, is_one_of_several
from tfdist.keras_repairs.coupling.gather_rows import dense_rows
from tfdist.keras_repairs.random_numbers.draw_scope import DRAW_SCOPE
from tfdist.keras_repairs.random_numbers.loops_and_branches import check_seed

Function = Callable[..., Any]

FAR_APART = 0x9E3779B9
"""2**32 divided by the golden ratio: multiples of it are far apart in all bits."""


def not_advancing() -> contextlib.AbstractContextManager[None]:
    """The code inside builds models from shapes alone: no seed follows on another.

    Keras would keep each as a tensor of the graph that drew it, which may be that of a loop, and hand it to the next
    draw outside of it.
    """
    return changing(DRAW_SCOPE, is_building=True)


def check_same_seeds(step: ReplicaStep) -> None:
    """Checks that all replicas have taken the same seeds in a step that has run eagerly; they call this together.

    In a graph the loops and branches show what they depend on; those of Python's do not.

    Raises:
        UnsupportedError: They have not.
    """
    taken = dense_rows(tf.constant([step.noted.seeds_taken], tf.int64)).numpy()
    if len(set(taken.tolist())) > 1:
        raise UnsupportedError(
            "keras.random, tf.random: the replicas have taken other seeds in a step that runs eagerly, so a loop or a "
            "branch in it depends on the samples, of which each replica has others. Draw for all rows before it, "
            "noise = keras.random.normal((keras.ops.shape(x)[0], ...), seed=seed), or put what decides and draws "
            "into tfdist.gathered(function)."
        )


def next_seed(original: Function) -> Function:
    """Repairs `keras.random.SeedGenerator.next`.

    The replicas' generators are copies of one, so that all replicas would drop the same units for the k-th of their
    samples. Each replica takes the seed that all share and makes one of its own from it.
    """

    def repaired(self: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        if DRAW_SCOPE.get().is_building:
            return self.state.value * 1
        check_seed()
        seed = original(self, *args, **kwargs)
        step = current_step()
        if step is not None and tf.executing_eagerly():
            step.noted.seeds_taken = zlib.crc32(self.state.path.encode(), step.noted.seeds_taken)
        if step is not None or not is_one_of_several():
            return seed
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.uint32)
        own = tf.bitwise.bitwise_xor(tf.cast(seed, tf.uint32), tf.stack([tf.zeros_like(replica), replica * FAR_APART]))
        return keras.ops.cast(own, seed.dtype)

    return repaired
