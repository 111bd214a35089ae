"""Random numbers of TensorFlow's own functions, such as `tf.random.normal`, in a replica's step.

Their operations keep a state of their own, and their seeds follow from the graph, which is another one on several
replicas. So no replica can know what one device would draw with a seed; see `unseeded_draws` for what draws without
one. A `tf.random.Generator` mixes the replica's number into its key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import tensorflow_seeds
from tfdist.keras_repairs.base.replica_step import current_step, is_alone

Function = Callable[..., Any]
Seeds = tuple[int | None, int | None]


def get_seed(original: Callable[[int | None], Seeds], imposed_seed: int | None) -> Callable[[int | None], Seeds]:
    """Repairs `tensorflow.python.framework.random_seed.get_seed`, which seeds the operations of `tf.random`.

    Args:
        original: The function.
        imposed_seed: TensorFlow's global seed as tfdist set it; None when it set none. A script that sets none expects
            no particular numbers.

    What draws without a seed gets one that is the same on all replicas: `tf.nn.sampled_softmax_loss` samples classes
    for the whole batch. `unseeded_draws` draws what has a row for each sample.
    """

    def repaired(op_seed: int | None) -> Seeds:
        graph_seed, operation_seed = original(op_seed)
        is_in_step = current_step() is not None or is_alone()
        if not is_in_step:
            return graph_seed, operation_seed
        is_imposed = imposed_seed is not None and context.global_seed() == imposed_seed
        if op_seed is None and (is_imposed or graph_seed is None):
            seeds = tensorflow_seeds.seeds_of_replica()
            return (graph_seed, operation_seed) if seeds is None else seeds.next_fixed()
        raise UnsupportedError(
            "A function of tf.random (or one that uses it, such as tf.nn.dropout and tf.image.random_flip_left_right) "
            "was called with a seed in a training step. Its numbers depend on TensorFlow's graph, so several replicas "
            "cannot draw those of one. Use the function of the same name in keras.random, with "
            "seed=keras.random.SeedGenerator(...) made once, a layer of keras.layers, or seed nothing (neither "
            "keras.utils.set_random_seed nor tf.random.set_seed)."
        )

    return repaired


def of_generator(original: Function) -> Function:
    """Repairs the methods of `tf.random.Generator` by which it draws: they are refused in a step."""

    def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current_step() is None and not is_alone():
            return original(self, *args, **kwargs)
        raise UnsupportedError(
            "A tf.random.Generator was used in a training step. Its numbers are other ones on every replica. Use "
            "the function of the same name in keras.random, with seed=keras.random.SeedGenerator(...) made once in the "
            "place of the generator."
        )

    return repaired


