"""The protocol of a format: it must provide samples, numbered from 0, which are read in any order.

`SampleSource` is what the pipeline takes. A format that reads arrays without TensorFlow need only be a `SampleReader`,
which `tfdist.data.formats.reader_samples` makes a source of.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tfdist.data.fingerprints import Fingerprint
from tfdist.order.sequential_order import Lanes

if TYPE_CHECKING:
    import tensorflow as tf

    from tfdist.data.ops.sample_batches import Augmentation
    from tfdist.data.ops.sample_indices import SampleIndices


class SampleSource(Protocol):
    """Samples as tensors."""

    def __len__(self) -> int:
        """The number of samples, at least 1."""

    def batches(self, numbers: SampleIndices) -> tf.data.Dataset:
        """Returns a dataset of the batches of these samples, in their order; a batch may be empty."""

    def name(self, number: int) -> str:
        """Names a sample for errors: its file and its place in it."""

    def fingerprint(self) -> Fingerprint:
        """Returns what the same source is known by on another worker."""


@runtime_checkable
class SequentialSource(Protocol):
    """The extension of a `SampleSource` that may be one that can only be read in sequence."""

    @property
    def lanes(self) -> Lanes | None:
        """The lanes in which it is read; None where it can be read in any order."""


@runtime_checkable
class PerSampleSource(Protocol):
    """The extension of a `SampleSource` whose samples are made one by one: it augments them before it batches."""

    def augmented(self, numbers: SampleIndices, augmentation: Augmentation | None) -> tf.data.Dataset:
        """Like `SampleSource.batches`, with every sample augmented."""


class ArraySpec(NamedTuple):
    """An array of a sample.

    Attributes:
        dtype: TensorFlow's name of its type: `float32`, `int64`, `string`.
        shape: Without the batch's dimension.
    """

    dtype: str
    shape: tuple[int, ...] = ()


class SampleSpecs(NamedTuple):
    """The description of a sample.

    Attributes:
        x: Its input, or the inputs by name.
        y: Its label.
    """

    x: ArraySpec | Mapping[str, ArraySpec]
    y: ArraySpec


class SampleReader(Protocol):
    """Samples of files as arrays, such as `x` and `y`, which are read without TensorFlow."""

    def __len__(self) -> int:
        """The number of samples, at least 1."""

    def read(self, indices: NDArray[np.int64]) -> Sequence[NDArray]:
        """Returns the arrays of the samples `indices` [k], each [k, ...]; strings as objects that are bytes.

        Raises:
            DataError: A sample is damaged, or its file can no longer be read.
        """

    def name(self, index: int) -> str:
        """Names a sample for errors: its file and its place in it."""

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """The types and shapes of the arrays that `read` returns."""

    @property
    def paths(self) -> Sequence[str | os.PathLike[str]]:
        """The files, in the order of the samples."""
