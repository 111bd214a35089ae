"""Decoding of images: those of image files, and those that lie encoded in the features of TFRecord files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfdist.data.ops.record_parser import reason_of
from tfdist.errors import DataError


@dataclass(frozen=True)
class ImageFeature:
    """A feature with the bytes of a BMP, GIF, JPEG or PNG, which becomes float32 `[height, width, channels]`.

    The numbers are those that `images` makes of the same file: from 0 to 255, resized to `height` and `width`.

    Attributes:
        height: In pixels, after resizing.
        width: In pixels, after resizing.
        channels: 1 grey, 3 colour, 4 colour with transparency.
    """

    height: int
    width: int
    channels: int

    def decode(self, images: tf.Tensor) -> tf.Tensor:
        """Decodes a batch, of animations the first image.

        Args:
            images: Strings [k].

        Returns:
            float32 [k, height, width, channels].
        """
        size = (self.height, self.width)

        def one(image: tf.Tensor) -> tf.Tensor:
            return decode_image(image, size, self.channels)

        return tf.map_fn(one, images, fn_output_signature=tf.TensorSpec([*size, self.channels], tf.float32))


def decode_image(image: tf.Tensor, size: Sequence[int], channels: int) -> tf.Tensor:
    """Decodes and resizes one image, a string scalar; returns float32 [height, width, channels] from 0 to 255."""
    pixels = tf.io.decode_image(image, channels, expand_animations=False)
    return tf.image.resize(tf.ensure_shape(pixels, [None, None, channels]), size)


def check_decodable(channels: int, image: bytes, name: str) -> None:
    """Checks that an image can be decoded.

    Raises:
        DataError: It cannot be; the text names it.
    """
    try:
        with tf.device("CPU:0"):
            tf.io.decode_image(image, channels, expand_animations=False)
    except tf.errors.OpError as error:
        raise DataError(f"{name}: this image cannot be decoded. {reason_of(error)}") from error
