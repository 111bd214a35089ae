"""Encoded images in TFRecord files: as they were in their files, decoded and resized when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.python_calls import CountedCalls, call_python
from tfdist.errors import DataError


@dataclass(frozen=True)
class ImageFeature:
    """A feature with the bytes of a BMP, GIF, JPEG or PNG, which becomes float32 `[height, width, channels]`.

    The numbers are those that `images` makes of the same file: from 0 to 255, resized to `height` and `width`.

    Attributes:
        height: In pixels, after resizing.
        width: The same.
        channels: 1 grey, 3 colour, 4 colour with transparency.
    """

    height: int
    width: int
    channels: int

    def decode(self, images: tf.Tensor, names: tf.Tensor) -> tf.Tensor:
        """Decodes a batch.

        Args:
            images: Strings [k].
            names: Strings [k]: what each is called in an error.

        Returns:
            float32 [k, height, width, channels].
        """
        decode = CountedCalls(partial(decode_image, self.channels))
        size = (self.height, self.width)

        def one(image: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            (pixels,) = call_python(decode, list(image), [tf.TensorSpec([None, None, self.channels], tf.uint8)])
            return tf.image.resize(pixels, size)

        spec = tf.TensorSpec([*size, self.channels], tf.float32)
        return tf.map_fn(one, (images, names), fn_output_signature=spec)


def decode_image(channels: int, image: bytes, name: bytes) -> list[NDArray[np.uint8]]:
    """Decodes one image, of an animation the first, to uint8 `[height, width, channels]`.

    Raises:
        DataError: It cannot be decoded; the text has its name. In Python, as an error in the graph could not name it.
    """
    try:
        with tf.device("CPU:0"):
            return [tf.io.decode_image(image, channels, expand_animations=False).numpy()]
    except tf.errors.OpError as error:
        text = name.decode("utf-8", "replace")
        # Without the names of TensorFlow's own functions around it.
        reason = error.message.rpartition("}} ")[2].partition(" [Op:")[0]
        raise DataError(f"{text}: this is no image that can be decoded. {reason}") from error
