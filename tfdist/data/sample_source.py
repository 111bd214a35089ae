"""Where samples come from: one class a format. Each numbers its samples from 0 and reads them in any order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.data.files.file_patterns import matching
from tfdist.data.fingerprints import Fingerprint, of_arrays, of_files
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.formats.image_files import ImageFiles
from tfdist.data.formats.text_files import TextReader
from tfdist.data.ops.record_parser import RecordParser
from tfdist.data.ops.sample_batches import (
    Augmentation,
    by_python,
    parallel_parses,
    parse_each,
    read_batches,
    read_filled,
)
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.errors import DataError
from tfdist.order.sequential_order import Lanes

FilePatterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class SampleSource(Protocol):
    """What a format must provide."""

    def __len__(self) -> int:
        """The number of samples, at least 1."""

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """Returns a dataset of the batches of these samples, in their order; a batch may be empty."""

    def name(self, number: int) -> str:
        """Names a sample for errors: its file and its place in it."""

    def fingerprint(self) -> Fingerprint:
        """By what the same source is known on another worker."""


@runtime_checkable
class SequentialSource(Protocol):
    """What a source has beside, when it may be one that can only be read in sequence."""

    @property
    def lanes(self) -> Lanes | None:
        """How it is read; None where it can be read in any order."""


@runtime_checkable
class PerSampleSource(Protocol):
    """What a source has beside, when its samples are made one by one: they are augmented before they are batched."""

    def augmented(self, numbers: SampleIndices, augmentation: Augmentation | None) -> tf.data.Dataset:
        """Like `SampleSource.batches`, with every sample augmented."""


class ArraySamples:
    """Arrays in memory: `x` and `y` are arrays or structures of arrays with the samples along their first axis."""

    def __init__(self, x: Any, y: Any = None, origin: str = "the arrays") -> None:
        """Takes the arrays; floating ones become float32, as in Keras. Errors name them by their `origin`.

        Raises:
            DataError: Arrays differ in their number of samples, or have none, or cannot be tensors.
        """
        with tf.device("CPU:0"):
            self._arrays = tf.nest.map_structure(_tensor, x if y is None else (x, y))
        tensors = tf.nest.flatten(self._arrays)
        sizes = {len(tensor) for tensor in tensors}
        if len(sizes) != 1:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
            raise DataError(f"Expected arrays with the same number of samples. Received the shapes: {shapes}")
        (self._size,) = sizes
        if not self._size:
            raise DataError("Expected at least one sample. Received: arrays of length 0.")
        self._origin = origin

    def __len__(self) -> int:
        return self._size

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return numbers.batches().map(
            lambda batch: tf.nest.map_structure(lambda array: tf.gather(array, batch), self._arrays)
        )

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return f"{self._origin}, sample {number}"

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_arrays(tf.nest.flatten(self._arrays), self._size)


class CsvSamples:
    """CSV files of numbers: `x` is float32 [columns], `y` a float32."""

    def __init__(self, files: FilePatterns, label: str, columns: Sequence[str] | None = None) -> None:
        """Reads the headers and finds the rows; see `CsvReader` for the errors."""
        self._reader = CsvReader(matching(files), label, columns)

    def __len__(self) -> int:
        return len(self._reader)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        x = tf.TensorSpec([None, self._reader.num_features], tf.float32)
        return read_batches(numbers.batches(), by_python(self._reader.read, [x, tf.TensorSpec([None], tf.float32)]))

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return self._reader.name(number)

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_files(self._reader.records.paths, len(self))


class TextSamples:
    """Text files with a labelled text a line: `x` is a string or what `vectorize` makes of it, `y` an int64."""

    def __init__(
        self,
        files: FilePatterns,
        vectorize: Callable[[tf.Tensor], Any] | None = None,
        label_separator: str = "\t",
    ) -> None:
        """Finds the lines; see `TextReader` for the errors."""
        self._reader = TextReader(matching(files), label_separator)
        self._vectorize = vectorize
        self._parsing = RecordParser(self._vectorized, self._reader.read, self._misfit, batched=True)

    def __len__(self) -> int:
        return len(self._reader)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        specs = [tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)]
        lines = read_batches(numbers.batches(), by_python(self._read, specs))
        if self._vectorize is None:
            return lines
        return lines.map(self._parsing.parse, num_parallel_calls=parallel_parses())

    def _read(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
        self._parsing.note(numbers)
        return self._reader.read(numbers)

    def _vectorized(self, texts: tf.Tensor, labels: tf.Tensor) -> tuple[Any, tf.Tensor]:
        assert self._vectorize is not None
        return self._vectorize(texts), labels

    def _misfit(self, number: int, reason: str) -> DataError:
        return DataError(f"{self.name(number)} does not fit the vectorize function: {reason}")

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return self._reader.name(number)

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_files(self._reader.records.paths, len(self))


class ImageSamples:
    """A folder of images: `x` is float32 [height, width, channels] from 0 to 255, `y` the int64 number of its class."""

    def __init__(self, path: str | os.PathLike[str], size: Sequence[int], channels: int = 3) -> None:
        """Lists the images; see `ImageFiles.find` for the errors."""
        self._folder, self._files = path, ImageFiles.find(path)
        self._size, self._channels = tuple(size), channels
        self._parsing = RecordParser(self._decode, self._listed, self._undecodable)

    def __len__(self) -> int:
        return len(self._files)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        return self.augmented(numbers, None)

    def augmented(self, numbers: SampleIndices, augmentation: Augmentation | None) -> tf.data.Dataset:
        """See `PerSampleSource.augmented`."""
        specs = [tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)]
        return parse_each(read_filled(numbers, by_python(self._list, specs)), self._parsing.parse, augmentation)

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        return str(self._files.paths[number])

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        return of_files(self._files.paths, len(self), self._folder)

    def _list(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
        self._parsing.note(numbers)
        return self._listed(numbers)

    def _listed(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
        """The paths and the labels of images, each [k]."""
        paths = np.array([os.fsencode(self._files.paths[number]) for number in numbers.tolist()], np.object_)
        return paths, self._files.labels[numbers]

    def _decode(self, path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_image(tf.io.read_file(path), self._channels, expand_animations=False)
        return tf.image.resize(tf.ensure_shape(image, [None, None, self._channels]), self._size), label

    def _undecodable(self, number: int, reason: str) -> DataError:
        return DataError(f"Cannot read the image {self.name(number)}: {reason}")


def _tensor(array: Any) -> tf.Tensor:
    array = np.asarray(array)
    if not array.ndim:
        raise DataError(f"Expected an array with samples along its first axis. Received: {array!r}")
    try:
        return tf.convert_to_tensor(array.astype(np.float32) if array.dtype.kind == "f" else array)
    except (TypeError, ValueError) as error:
        raise DataError(f"Expected numbers or strings. Received: an array of type {array.dtype}.") from error
