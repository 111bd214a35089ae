"""Predictions as a CSV file: a column for each value of each output, after that with the samples' numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError, UsageError
from tfdist.training.inference.outputs.output_formats import INDEX, Blocks, OutputColumn

_MOST_COLUMNS = 100_000


def check(columns: Sequence[OutputColumn]) -> None:
    """See `OutputFormat.check`."""
    values = sum(column.size for column in columns)
    if values > _MOST_COLUMNS:
        raise UsageError(
            f"A CSV file has a column for each value of an output, and {values:,} are too many. Expected "
            f"{_MOST_COLUMNS:,} at most. Choose another --format, such as npz."
        )
    names = _names(columns)
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise UsageError(
            f"Two values of outputs would be in columns called {twice}. Expected names of outputs of which none "
            "is that of another with a number. Rename an output, or choose another --format, such as npz."
        )


def write(path: Path, columns: Sequence[OutputColumn], samples: int, blocks: Blocks) -> None:
    """See `OutputFormat.write`. Numbers have as many digits as are needed to read the same ones again."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_names(columns))
        for start, arrays in blocks():
            flat = [array.reshape(len(array), -1) for array in arrays]
            for row in range(len(arrays[0])):
                writer.writerow([start + row, *_cells(columns, flat, row, start + row)])


def notes(path: Path, columns: Sequence[OutputColumn]) -> list[str]:
    """See `OutputFormat.notes`."""
    return []


def _names(columns: Sequence[OutputColumn]) -> list[str]:
    """`index`, then for each output its name, with the place of the value where it has several."""
    names = [INDEX]
    for column in columns:
        places = np.ndindex(*column.shape)
        names += ["_".join([column.name, *map(str, place)]) for place in places] if column.shape else [column.name]
    return names


def _cells(columns: Sequence[OutputColumn], flat: Sequence[NDArray], row: int, sample: int) -> Iterator[Any]:
    for column, array in zip(columns, flat, strict=True):
        for value in array[row]:
            yield _text(value, column, sample) if column.is_text else _number(value)


def _number(value: Any) -> Any:
    # NumPy's own text of a float32 is shorter than that of the same number as a float64.
    return int(value) if value.dtype.kind == "b" else str(value)


def _text(value: bytes, column: OutputColumn, sample: int) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"The output {column.name!r} of sample {sample} is no text in UTF-8, as a CSV file has: {error}. Choose "
            "another --format, such as npz or tfrecord."
        ) from error
