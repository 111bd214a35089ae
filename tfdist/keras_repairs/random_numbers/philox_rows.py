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

from tfdist.keras_repairs.random_numbers.draw_sizes import PartOfDraw, as_shape

_PHILOX = 1

Kernel = Callable[..., tf.Tensor]


def uniform(part: PartOfDraw, seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The part of `tf.random.stateless_uniform`, between 0 and 1."""
    return _rows(tf.raw_ops.StatelessRandomUniformV2, part, seed, _block(dtype), counters=1, dtype=dtype)


def uniform_int(part: PartOfDraw, seed: tf.Tensor, minval: tf.Tensor, maxval: tf.Tensor) -> tf.Tensor:
    """The part of `tf.random.stateless_uniform` of integers, from `minval` to `maxval` - 1, both of one dtype."""
    kernel = tf.raw_ops.StatelessRandomUniformIntV2
    return _rows(kernel, part, seed, _block(minval.dtype), counters=1, minval=minval, maxval=maxval)


def normal(part: PartOfDraw, seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The part of `tf.random.stateless_normal`, with mean 0 and deviation 1.

    Compiled with XLA, numbers are made in pairs of the first and the second half of the whole draw.
    """
    if part.within_xla:
        return part.cut(tf.random.stateless_normal(part.whole, seed, dtype=dtype))
    return _rows(tf.raw_ops.StatelessRandomNormalV2, part, seed, _block(dtype), counters=1, dtype=dtype)


def truncated_normal(part: PartOfDraw, seed: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """The part of `tf.random.stateless_truncated_normal`, with mean 0 and deviation 1.

    Numbers that are too far off are drawn anew: TensorFlow reserves 256 draws for each. XLA computes each from one.
    """
    counters = 1 if part.within_xla else 64 * _block(dtype)
    return _rows(tf.raw_ops.StatelessTruncatedNormalV2, part, seed, _block(dtype), counters=counters, dtype=dtype)


def _rows(kernel: Kernel, part: PartOfDraw, seed: tf.Tensor, block: int, *, counters: int, **options: Any) -> tf.Tensor:
    """A part along the first axis, which lies in one piece.

    Args:
        kernel: Fills a shape with numbers from a key and a counter.
        part: The part.
        seed: Two integers.
        block: How many numbers a block has.
        counters: Steps of the counter for each block of numbers.
        options: Other arguments of the kernel.
    """
    assert part.axis == 0, "rows of another axis do not lie in one piece"
    width = tf.reduce_prod(as_shape(part.sizes[1:]))
    skipped, elements = part.begin * width, tf.cast(part.size, tf.int64) * width
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    counter += tf.cast(tf.stack([skipped // block * counters, 0]), counter.dtype)
    if _fills_blocks(part, block):
        return kernel(shape=as_shape(part.sizes), key=key, counter=counter, alg=_PHILOX, **options)
    # It may begin within a block.
    flat = kernel(shape=[elements + block - 1], key=key, counter=counter, alg=_PHILOX, **options)
    return tf.reshape(tf.slice(flat, [skipped % block], [elements]), as_shape(part.sizes))


def _block(dtype: tf.DType) -> int:
    """How many numbers a counter gives: it has 128 bits, of which a number takes 32, or 64."""
    return 2 if dtype.size == 8 else 4


def _fills_blocks(part: PartOfDraw, block: int) -> bool:
    """Whether every row begins with a block."""
    width = part.sizes[1:]
    return all(isinstance(size, int) for size in width) and math.prod(width) % block == 0
