"""A replica's slice of what one device draws for the global batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
