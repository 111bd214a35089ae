"""The formats of predictions, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeAlias, cast

from numpy.typing import NDArray

from tfdist.training.inference.outputs.output_columns import OutputColumn

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
