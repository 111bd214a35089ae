"""Rows of a random draw, made without the rows before them.

TensorFlow's generator is Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a number is a
function of the key and of a counter, which the operations increment by one for each block of numbers. So a draw that
begins at a later counter gives the later numbers of the whole draw, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.random_numbers.draw_slice import DrawSlice, as_shape

PHILOX = 1
"""The algorithm, as the operations number it."""

_AUTOMATIC = 3

Draw = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def lies_in_one_piece(draw_slice: DrawSlice, alg: Any) -> bool:
    """Returns whether `rows` can draw a slice.

    Args:
        draw_slice: The slice.
        alg: The algorithm that code asks for. That which TensorFlow chooses by the device is Philox wherever it trains.
    """
    return draw_slice.axis == 0 and draw_slice.places is None and isinstance(alg, int) and alg in (PHILOX, _AUTOMATIC)


def rows(draw: Draw, draw_slice: DrawSlice, counter: tf.Tensor, dtype: tf.DType, counters: int = 1) -> tf.Tensor:
    """A slice along the first axis, which lies in one piece.

    Args:
        draw: Draws numbers in a shape, from a counter on.
        draw_slice: The slice.
        counter: Where the whole draw begins: two numbers of 64 bits.
        dtype: Of the numbers.
        counters: Steps of the counter for each block of numbers.
    """
    block = block_of(dtype)
    width = tf.reduce_prod(as_shape(draw_slice.sizes[1:]))
    skipped, elements = draw_slice.begin * width, tf.cast(draw_slice.size, tf.int64) * width
    counter += tf.cast(tf.stack([skipped // block * counters, 0]), counter.dtype)
    if _fills_blocks(draw_slice, block):
        return draw(as_shape(draw_slice.sizes), counter)
    # It may begin within a block.
    flat = draw(tf.reshape(elements + block - 1, [1]), counter)
    return tf.reshape(tf.slice(flat, [skipped % block], [elements]), as_shape(draw_slice.sizes))


def counters_of_truncated_normal(draw_slice: DrawSlice, dtype: tf.DType) -> int:
    """The steps of the counter for a block of truncated normal numbers.

    Numbers that are too far off are drawn anew: TensorFlow reserves 256 draws for each. XLA computes each from one.
    """
    return 1 if draw_slice.within_xla else 64 * block_of(dtype)


def block_of(dtype: tf.DType) -> int:
    """Returns how many numbers a counter gives: it has 128 bits, of which a number takes 32, or 64."""
    return 2 if dtype.size == 8 else 4


def _fills_blocks(draw_slice: DrawSlice, block: int) -> bool:
    """Returns whether every row begins with a block."""
    width = draw_slice.sizes[1:]
    return all(isinstance(size, int) for size in width) and math.prod(width) % block == 0
