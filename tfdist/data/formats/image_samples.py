"""Images decoded to tensors: those of image files, and those that lie encoded in the features of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.fingerprints import Fingerprint, of_files
from tfdist.data.formats.reader_samples import ReaderSamples
from tfdist.data.ops.record_parser import RecordParser, reason_of
from tfdist.data.ops.sample_batches import Augmentation, parse_each, read_filled
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.errors import DataError

if TYPE_CHECKING:
    from tfdist.data.files.image_folder import ImageFiles


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


class ImageSamples(ReaderSamples):
    """A folder of images: `x` is float32 [height, width, channels] from 0 to 255, `y` the int64 number of its class."""

    def __init__(self, files: ImageFiles, size: Sequence[int], channels: int = 3) -> None:
        """Takes the images.

        Args:
            files: Where they are.
            size: `(height, width)` to which each is resized.
            channels: 1, 3 or 4.
        """
        super().__init__(files)
        self._files, self._size, self._channels = files, tuple(size), channels
        self._parser = RecordParser(self._decode, files.read, self._undecodable)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return self.augmented(numbers, None)

    def augmented(self, numbers: SampleIndices, augmentation: Augmentation | None) -> tf.data.Dataset:
        """See `PerSampleSource.augmented`."""
        return parse_each(read_filled(numbers, self._load()), self._parser.parse, augmentation)

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_files(self._files.paths, len(self), self._files.folder)

    def _read(self, numbers: NDArray[np.int64]) -> Sequence[NDArray]:
        self._parser.note(numbers)
        return super()._read(numbers)

    def _decode(self, path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return decode_image(tf.io.read_file(path), self._size, self._channels), label

    def _undecodable(self, number: int, reason: str) -> DataError:
        return DataError(f"Cannot read the image {self.name(number)}: {reason}")
