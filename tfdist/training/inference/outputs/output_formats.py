"""The formats of predictions, by name, and the columns of a model's outputs in their files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

INDEX = "index"
"""The column with the number of each sample, from 0."""

STRING = "string"
"""The dtype of a column of texts, whose arrays have `bytes` as objects."""

KINDS = frozenset(
    ["bool", STRING, *(f"float{bits}" for bits in (16, 32, 64))]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
"""The types that a column can have."""


@dataclass(frozen=True)
class OutputColumn:
    """One output.

    Attributes:
        name: Its name.
        dtype: NumPy's name of its type, or `string`.
        shape: Of a sample.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def is_text(self) -> bool:
        """True if its values are texts."""
        return self.dtype == STRING

    @property
    def size(self) -> int:
        """Values of a sample."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape) if self.shape else ''}"


def column_of(name: str, array: NDArray) -> OutputColumn:
    """The column that an array of `arrays_of` belongs to."""
    return OutputColumn(name, STRING if array.dtype.hasobject else array.dtype.name, array.shape[1:])


Blocks: TypeAlias = Callable[[], Iterator[tuple[int, list[NDArray]]]]
"""Returns the first sample of each part and the arrays of its outputs, in the order of the samples, from the beginning;
called as often as a format needs."""

_MODULES: Mapping[str, str] = MappingProxyType(
    {"npz": "npz_output", "tfrecord": "tfrecord_output", "csv": "csv_output", "parquet": "parquet_output"}
)


class OutputFormat(Protocol):
    """The interface that the module of a format must have."""

    def check(self, columns: Sequence[OutputColumn]) -> None:
        """Checks, after the first step, that these outputs can be written.

        Raises:
            UsageError: They cannot.
        """

    def write(self, path: Path, columns: Sequence[OutputColumn], samples: int, blocks: Blocks) -> None:
        """Writes all predictions into a file; the same bytes however they lie in blocks.

        Args:
            path: The file.
            columns: The outputs.
            samples: How many there are of all blocks.
            blocks: The predictions.

        Raises:
            OSError: The file cannot be written.
            DataError: A value cannot be written in this format.
        """

    def notes(self, path: Path, columns: Sequence[OutputColumn]) -> list[str]:
        """Returns what a user has to know of the file `path`, a text each."""


def output_format(name: str) -> OutputFormat:
    """The format of a name."""
    return cast(OutputFormat, importlib.import_module(f"tfdist.training.inference.outputs.{_MODULES[name]}"))
