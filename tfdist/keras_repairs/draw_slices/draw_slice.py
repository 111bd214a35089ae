"""A replica's slice of what one device draws for the global batch.

TensorFlow's generator is Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a number is a
function of the key and of a counter, which the operations increment by one for each block of numbers. So a draw that
begins at a later counter gives the later numbers of the whole draw, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

Size: TypeAlias = int | tf.Tensor


@dataclass(frozen=True)
class DrawSlice:
    """A replica's slice of what one device draws for the global batch.

    Attributes:
        sizes: The sizes of the slice.
        axis: Which of them is that of the batch, or a multiple of it.
        begin: Where the slice begins along that axis, a scalar int64 tensor.
        total: The size of that axis in the whole draw, a scalar int64 tensor.
        within_xla: Whether XLA compiles the draw; the slice may then reach beyond the whole, by the rows of padding.
        places: Where along that axis the rows of the slice are, int64, if they do not lie in one piece.
    """

    sizes: tuple[Size, ...]
    axis: int
    begin: tf.Tensor
    total: tf.Tensor
    within_xla: bool = False
    places: tf.Tensor | None = None

    @property
    def size(self) -> Size:
        """The size of the slice along its axis."""
        return self.sizes[self.axis]

    @property
    def whole(self) -> tf.Tensor:
        """The shape of the whole draw, an int64 vector."""
        return as_shape([*self.sizes[: self.axis], self.total, *self.sizes[self.axis + 1 :]])

    def cut(self, whole: tf.Tensor) -> tf.Tensor:
        """The slice of a whole draw; dimensions after those of `sizes` are kept."""
        if self.places is not None:
            return tf.gather(whole, self.places, axis=self.axis)
        if self.within_xla:
            paddings = [[0, 0] for _ in range(whole.shape.rank)]
            paddings[self.axis][1] = self.size
            whole = tf.pad(whole, [as_shape(pair) for pair in paddings])
        begin: list[Size] = [0] * whole.shape.rank
        begin[self.axis] = self.begin
        size = [*self.sizes, *([-1] * (whole.shape.rank - len(self.sizes)))]
        return tf.slice(whole, as_shape(begin), as_shape(size))


def as_shape(sizes: Sequence[Size]) -> tf.Tensor:
    """Sizes as an int64 vector."""
    if not sizes:
        return tf.zeros([0], tf.int64)
    return tf.stack([tf.cast(int(size) if isinstance(size, int) else size, tf.int64) for size in sizes])


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


def philox_rows(draw: Draw, draw_slice: DrawSlice, counter: tf.Tensor, dtype: tf.DType, counters: int = 1) -> tf.Tensor:
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
