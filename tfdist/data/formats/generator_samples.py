"""Generators: samples that a Python function makes, one after another."""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.config.data_sections import GeneratorSource
from tfdist.config.dotted_path import resolve_callable, search_in
from tfdist.data.argument_checks import integer
from tfdist.data.files.file_facts import random_calls_of
from tfdist.data.fingerprints import Fingerprint
from tfdist.data.ops.sample_batches import by_python, read_batches
from tfdist.data.ops.sample_indices import SampleIndices
from tfdist.data.sequential.sequential_reader import SampleStream, SequentialReader
from tfdist.errors import DataError, UsageError
from tfdist.order.sequential_order import SHUFFLE_BUFFER, Lanes
from tfdist.plan.plan_inputs import FileSizes, SequentialRead, SourceSizes
from tfdist.text import safe_str

Leaves = tuple[NDArray, ...]
"""A sample's arrays, flattened."""


def open_source(section: GeneratorSource, key: str) -> GeneratorSamples:
    """See `FormatModule.open_source`."""
    function = resolve_callable(section.function, f"{key}.function")
    return GeneratorSamples(function, None, section.samples, section.lanes, section.shuffle_buffer)


def sample_specs(section: GeneratorSource) -> None:
    """See `FormatModule.sample_specs`. The function alone knows."""


def measure(section: GeneratorSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`. Calls the function, which alone knows its samples."""
    search_in(os.getcwd())
    source = open_source(section, key)
    lanes, bytes_ = source.lanes, source.sample_bytes
    names = [section.function] if section.lanes is None else [f"{section.function}({n})" for n in range(section.lanes)]
    return SourceSizes(
        "generator",
        tuple(FileSizes(name, count, count * bytes_) for name, count in zip(names, lanes.counts, strict=True)),
        bytes_,
        held_bytes=lanes.number * lanes.window * bytes_,
        random_calls=random_calls_of(section.function),
        sequence=SequentialRead("made by a function", lanes),
    )


class GeneratorSamples:
    """The samples of a function that returns an iterable over the same samples in the same order at each call.

    Attributes:
        lanes: How the samples are read.
    """

    def __init__(
        self,
        function: Callable[..., Iterable[Any]],
        output_signature: Any = None,
        samples: int | Sequence[int] | None = None,
        lanes: int | None = None,
        shuffle_buffer: int = SHUFFLE_BUFFER,
    ) -> None:
        """Looks at the first sample; see `tfdist.data.generator` for the arguments.

        Raises:
            DataError: There is no sample, or the first does not fit the signature.
            UsageError: An argument is impossible.
        """
        shuffle_buffer = integer("shuffle_buffer", shuffle_buffer, at_least=1)
        self._function, self._numbered = function, lanes is not None
        counts = self._counts(samples, 1 if lanes is None else lanes)
        if not sum(counts):
            raise DataError(f"Expected at least one sample. Received: none from {self._called}.")
        self.lanes = Lanes.of(counts, max(len(counts), 1), shuffle_buffer)
        names = [self._name_of(lane) for lane in range(len(counts))]
        self._reader: SequentialReader[Leaves] = SequentialReader(
            counts, names, self._stream, self.lanes.number, self.lanes.window
        )
        first = next(lane for lane, count in enumerate(counts) if count)
        self._signature = output_signature
        if output_signature is None:
            self._signature = tf.nest.map_structure(_spec_of, self._first_sample(first))
        self._specs: list[tf.TensorSpec] = tf.nest.flatten(self._signature)
        (self._zeroth,) = self._reader.read(np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self._reader)

    @property
    def sample_bytes(self) -> int:
        """Bytes of the first sample's arrays."""
        return sum(leaf.nbytes for leaf in self._zeroth)

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """See `SampleSource.batches`."""
        specs = [tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in self._specs]
        flat = read_batches(numbers.batches(), by_python(self._read, specs))
        return flat.map(lambda *leaves: tf.nest.pack_sequence_as(self._signature, leaves))

    def name(self, number: int) -> str:
        """See `SampleSource.name`."""
        (lane,), (place,) = self._reader.locate(np.array([number]))
        return f"{self._name_of(int(lane))}, sample {place}"

    def fingerprint(self) -> Fingerprint:
        """See `SampleSource.fingerprint`."""
        checksum = zlib.crc32(repr((self.lanes.counts, [leaf.tolist() for leaf in self._zeroth])).encode())
        return Fingerprint(len(self), self._called, checksum)

    @property
    def _called(self) -> str:
        return f"the generator {_qualified_name(self._function)}"

    def _name_of(self, lane: int) -> str:
        return f"{self._called}, lane {lane}" if self._numbered else self._called

    def _counts(self, samples: int | Sequence[int] | None, lanes: int) -> tuple[int, ...]:
        """The samples of each lane: as given, else by calling the function and counting."""
        lanes = integer("lanes", lanes, at_least=1)
        if samples is None:
            return tuple(sum(1 for _ in self._iterator(lane)) for lane in range(lanes))
        counts = tuple(samples) if isinstance(samples, Iterable) else (samples,)
        if len(counts) != lanes or not all(isinstance(count, int | np.integer) and count >= 0 for count in counts):
            raise UsageError(
                f"samples: expected {'an integer' if lanes == 1 else f'{lanes} integers, the samples of each lane'} of "
                f"0 or more, or None to count them. Received: {samples!r}"
            )
        return tuple(int(count) for count in counts)

    def _first_sample(self, lane: int) -> Any:
        for sample in self._iterator(lane):
            return sample
        raise DataError(f"Expected at least one sample. Received: none from {self._name_of(lane)}.")

    def _iterator(self, lane: int) -> Iterator[Any]:
        found = self._function(lane) if self._numbered else self._function()
        try:
            return iter(found)
        except TypeError as error:
            raise UsageError(
                f"Expected {self._called} to return an iterator over samples, as a function with yield does. Received: "
                f"{type(found).__name__}"
            ) from error

    def _stream(self, lane: int) -> SampleStream[Leaves]:
        for number, sample in enumerate(self._iterator(lane)):
            yield (self._leaves(lane, number, sample),)

    def _leaves(self, lane: int, number: int, sample: Any) -> Leaves:
        """A sample's arrays, of the types and shapes of the signature."""
        try:
            tf.nest.assert_same_structure(self._signature, sample)
            leaves = tuple(
                _as_type(leaf, object if spec.dtype == tf.string else spec.dtype.as_numpy_dtype)
                for leaf, spec in zip(tf.nest.flatten(sample), self._specs, strict=True)
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise self._misfit(lane, number, safe_str(error).splitlines()[0].rstrip(".")) from error
        for leaf, spec in zip(leaves, self._specs, strict=True):
            if not spec.shape.is_compatible_with(leaf.shape):
                raise self._misfit(lane, number, f"an array has the shape {leaf.shape} and not {tuple(spec.shape)}")
        return leaves

    def _misfit(self, lane: int, number: int, problem: str) -> DataError:
        return DataError(
            f"{self._name_of(lane)}, sample {number}: {problem}. Expected samples of one structure, type and shape, as "
            f"output_signature or the first sample says: {self._signature}"
        )

    def _read(self, indices: NDArray[np.int64]) -> list[NDArray]:
        samples = self._reader.read(indices)
        if not samples:
            return [
                np.empty((0, *(size or 0 for size in spec.shape)), spec.dtype.as_numpy_dtype) for spec in self._specs
            ]
        try:
            return [np.stack(leaves) for leaves in zip(*samples, strict=True)]
        except ValueError as error:
            raise DataError(
                f"{self.name(int(indices[0]))} and the samples of its batch have different shapes: {error}. Expected "
                "one shape for all samples. Pad them."
            ) from error


def _qualified_name(function: Any) -> str:
    """The name of a function, the same in every process: workers compare it."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _as_type(leaf: Any, kind: type) -> NDArray:
    """Returns a leaf as an array of another type, whose integers must hold its numbers exactly.

    Raises:
        ValueError: They do not, or the leaf has no such type; so do TypeError and OverflowError.
    """
    array = np.asarray(leaf)
    if np.dtype(kind).kind not in "biu" or array.dtype == kind or array.dtype.kind not in "biufc":
        return np.asarray(leaf, kind)
    with np.errstate(invalid="ignore"):
        found: NDArray = array.astype(kind)
    if (lost := found != array).any():
        raise ValueError(f"{array[lost].flat[0]} is no {np.dtype(kind).name}")
    return found


def _spec_of(leaf: Any) -> tf.TensorSpec:
    """The spec of an array of the first sample; floating-point ones become float32, as in Keras."""
    array = np.asarray(leaf)
    if array.dtype.kind == "f":
        return tf.TensorSpec(array.shape, tf.float32)
    return tf.TensorSpec(array.shape, tf.string if array.dtype.kind in "OSU" else tf.as_dtype(array.dtype))
