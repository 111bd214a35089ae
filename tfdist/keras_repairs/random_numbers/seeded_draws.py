"""Draws of `tf.random.normal` and its kin with a seed, given by a script for all of TensorFlow or for one operation.

On one device the operation keeps the place of its stream of Philox numbers. Here the place is counted, and each replica
draws its rows of the same numbers, by the operations of `tf.random.stateless_*`. The first seed is that of the script
for all; the second that of the operation, or how many operations of the step's graph had none before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import random_seed
from tensorflow.python.ops import gen_stateless_random_ops_v2 as stateless

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base import tensorflow_seeds
from tfdist.keras_repairs.base.draw_streams import ReplicaStreams
from tfdist.keras_repairs.base.replica_step import current_step, is_alone, is_compiled_alone, is_tried_out
from tfdist.keras_repairs.coupling.traced_calls import is_noting
from tfdist.keras_repairs.draw_slices import draw_scope
from tfdist.keras_repairs.draw_slices.draw_slice import PHILOX, DrawSlice, Size, as_shape
from tfdist.keras_repairs.random_numbers.draw_sizes import sizes_of, slice_of_draw
from tfdist.keras_repairs.random_numbers.stateless_draws import drawing, shuffled

_OF_TENSORFLOW = "tf.random"
_RESERVED = 256
"""Blocks of numbers that TensorFlow puts aside for each one drawn, as some are drawn anew."""

_SEEDS = 2**31 - 1

Function = Callable[..., Any]
Seeds = tuple[int | None, int | None]
Draw = Callable[..., tf.Tensor]


class SeedOfScript(int):
    """The second seed of an operation that a script has seeded; TensorFlow takes it for a number."""


@dataclass(frozen=True)
class Stream:
    """The place of a draw in the numbers of its seeds.

    Attributes:
        key: The key of Philox, uint64 [1].
        counter: The counter that the draw begins with, uint64 [2].
        advance: Counts the blocks that are drawn.
    """

    key: tf.Tensor
    counter: tf.Tensor
    advance: Callable[[tf.Tensor], None]


def _seeds_of_script(op_seed: int | None, seeds: Seeds) -> Seeds:
    """The seeds of an operation in a step, as one device has them.

    Args:
        op_seed: That of the operation; None where it has none.
        seeds: What TensorFlow takes for both seeds here.

    Raises:
        UnsupportedError: It is not known what one device would draw.
    """
    streams = _streams()
    first, second = seeds
    if op_seed is None and not streams.by_graph:
        second = streams.next_seed() % _SEEDS
    if (first, second) == (0, 0):
        second = _SEEDS
    streams.open_seeds += 1
    return first, SeedOfScript(second or 0)


def stream_of(seed: int, seed2: int) -> Stream:
    """The stream of an operation with these seeds, at the place that steps before have left."""
    streams = _streams()
    streams.open_seeds -= 1
    place = streams.next_place()
    counter = tf.stack([streams.begin(place), tf.constant(int(seed2), tf.int64)])
    return Stream(
        tf.constant([seed], tf.uint64), tf.cast(counter, tf.uint64), lambda blocks: streams.advance(place, blocks)
    )


def check_seeds_are_used() -> None:
    """Checks, at the end of a replica's step, that every seed of a script's was for an operation that is known.

    Raises:
        UnsupportedError: One was not.
    """
    replica = tensorflow_seeds.seeds_of_replica()
    if replica is not None and replica.streams is not None and replica.streams.open_seeds:
        raise unknown("by an operation that keeps its numbers for itself")


def _streams() -> ReplicaStreams:
    replica = tensorflow_seeds.seeds_of_replica()
    streams = None if replica is None else replica.streams
    step = current_step()
    by_xla = is_compiled_alone() if step is None else step.trace.draws_by_xla
    if streams is None or tf.executing_eagerly():
        raise unknown("outside of the compiled steps of fit and evaluate")
    if by_xla:
        raise unknown("in a step that XLA compiles")
    if tf.compat.v1.get_default_graph() is not streams.graph:
        raise unknown("in a loop, in a branch, or in a function of tf.function that a step calls")
    return streams


def unknown(where: str) -> UnsupportedError:
    """The error of a draw with a seed of which it is not known what one device would draw.

    Args:
        where: It is drawn, as the end of a sentence.
    """
    return UnsupportedError(
        "A function of tf.random (or one that uses it, such as tf.nn.dropout and tf.image.random_flip_left_right) was "
        f"called with a seed {where}, where several replicas cannot know what one device draws. Use the function of "
        "the same name in keras.random, with seed=keras.random.SeedGenerator(...) made once, a layer of keras.layers, "
        "or seed nothing (neither keras.utils.set_random_seed nor tf.random.set_seed)."
    )


def _slice(sizes: tuple[Size, ...]) -> DrawSlice | None:
    step = current_step()
    return None if step is None else slice_of_draw(sizes, step, _OF_TENSORFLOW)


def _count(sizes: tuple[Size, ...], draw_slice: DrawSlice | None) -> tf.Tensor:
    """Returns how many numbers one device draws."""
    return tf.reduce_prod(as_shape(sizes) if draw_slice is None else draw_slice.whole)


def _of_shape(draw: Draw) -> Callable[..., tf.Tensor]:
    def drawn(stream: Stream, shape: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        sizes = sizes_of(shape)
        draw_slice = _slice(sizes)
        with drawing(draw_slice):
            numbers = draw(shape, stream, *args, **kwargs)
        stream.advance(_RESERVED * _count(sizes, draw_slice))
        return numbers

    return drawn


def _normal(shape: Any, stream: Stream, dtype: Any) -> tf.Tensor:
    return stateless.stateless_random_normal_v2(shape, stream.key, stream.counter, PHILOX, dtype)


def _uniform(shape: Any, stream: Stream, dtype: Any) -> tf.Tensor:
    return stateless.stateless_random_uniform_v2(shape, stream.key, stream.counter, PHILOX, dtype)


def _truncated_normal(shape: Any, stream: Stream, dtype: Any) -> tf.Tensor:
    return stateless.stateless_truncated_normal_v2(shape, stream.key, stream.counter, PHILOX, dtype)


def _integers(shape: Any, stream: Stream, minval: Any, maxval: Any) -> tf.Tensor:
    key, counter = stream.key, stream.counter
    return stateless.stateless_random_uniform_int_v2(shape, key, counter, PHILOX, minval, maxval)


def gamma(stream: Stream, shape: Any, alpha: Any) -> tf.Tensor:
    """Draws as `RandomGamma` does, all numbers of one `alpha` before those of the next; each replica draws them all."""
    alpha = tf.convert_to_tensor(alpha)
    if not alpha.shape.is_fully_defined():
        raise unknown("and an alpha for each sample")
    sizes = sizes_of(shape)
    draw_slice = _slice(sizes)
    whole = as_shape(sizes) if draw_slice is None else draw_slice.whole
    first = alpha.shape.rank
    shape_of_all = tf.concat([tf.cast(tf.shape(alpha), tf.int64), whole], 0)
    alphas = tf.broadcast_to(tf.reshape(alpha, [*alpha.shape, *([1] * len(sizes))]), shape_of_all)
    with drawing(None):
        key, counter = stream.key, stream.counter
        drawn = stateless.stateless_random_gamma_v3(shape_of_all, key, counter, PHILOX, alphas)
    stream.advance(_RESERVED * tf.reduce_prod(shape_of_all))
    rank = first + len(sizes)
    drawn = tf.transpose(drawn, [*range(first, rank), *range(first)])
    return drawn if draw_slice is None else draw_slice.cut(drawn)


def shuffle(stream: Stream, value: Any) -> tf.Tensor:
    """Shuffles as `RandomShuffle` does; along the batch the rows of all replicas are gathered."""
    value = tf.convert_to_tensor(value)

    def of_all(rows: tf.Tensor) -> tf.Tensor:
        # TensorFlow has no gradient of a shuffle.
        return tf.stop_gradient(tf.gather(rows, _order(stream, tf.shape(rows, tf.int64)[0])))

    return shuffled(tf.shape(value)[:1], value, of_all, "tf.random.shuffle")


def _order(stream: Stream, rows: tf.Tensor) -> tf.Tensor:
    """The order of rows after a shuffle by Fisher and Yates: each changes places with one of those from it on."""
    swaps = tf.maximum(rows - 1, 0)
    with drawing(None):
        numbers = stateless.stateless_random_uniform_full_int_v2(
            swaps[tf.newaxis], stream.key, stream.counter, PHILOX, tf.uint32
        )
    stream.advance((swaps + 3) // 4)
    chosen = tf.range(swaps) + tf.cast(numbers, tf.int64) % (rows - tf.range(swaps))

    def swap(place: tf.Tensor, order: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pair = tf.stack([place, chosen[place]])
        return place + 1, tf.tensor_scatter_nd_update(order, pair[:, tf.newaxis], tf.gather(order, pair[::-1]))

    _, order = tf.while_loop(lambda place, _: place < swaps, swap, (tf.zeros([], tf.int64), tf.range(rows)))
    return order


normal = _of_shape(_normal)
uniform = _of_shape(_uniform)
truncated_normal = _of_shape(_truncated_normal)
integers = _of_shape(_integers)


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
        seeds = original(op_seed)
        is_imposed = imposed_seed is not None and context.global_seed() == imposed_seed
        if is_imposed and op_seed is not None:
            # As without a seed for all, which the script has not set.
            seeds = random_seed.DEFAULT_GRAPH_SEED, seeds[1]
        if current_step() is None and not is_alone():
            return seeds
        if op_seed is None and (is_imposed or seeds == (None, None)):
            of_replica = tensorflow_seeds.seeds_of_replica()
            return seeds if of_replica is None else of_replica.next_fixed()
        if draw_scope.replaces_draws() or is_noting() or is_tried_out():
            return seeds
        return _seeds_of_script(op_seed, seeds)

    return repaired
