"""The part of Parquet files that a config to start with can read: their columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfdist.data.files.parquet_footers import check_footers
from tfdist.data.random_access.parquet_columns import ParquetColumn, load_pyarrow
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError


@dataclass(frozen=True)
class ParquetTable:
    """The columns of Parquet files.

    Attributes:
        names: Of all columns.
        numbers: Those that hold numbers without a gap -> the type and shape of a value.
        shapes: Those of them whose type says no shape -> the shape that the first row has.
        left_out: The others -> why, in words.
    """

    names: tuple[str, ...]
    numbers: Mapping[str, ArraySpec]
    shapes: Mapping[str, tuple[int, ...]]
    left_out: Mapping[str, str]

    def reader(self, paths: tuple[Path, ...], label: str, columns: tuple[str, ...]) -> ParquetReader:
        """A reader of some columns, and the label as the last."""
        shapes = {name: shape for name, shape in self.shapes.items() if name in (*columns, label)}
        return ParquetReader(paths, ParquetFeatures(label, columns, shapes))


def parquet_table(paths: tuple[Path, ...]) -> ParquetTable:
    """Looks at the files' own indices, and at the first row.

    Raises:
        DataError: A file cannot be read as Parquet.
        UsageError: pyarrow is not installed.
    """
    arrow = load_pyarrow()
    check_footers(paths)
    gaps: set[str] = set()
    try:
        for path in reversed(paths):
            with arrow.parquet.ParquetFile(path) as file:
                gaps |= _gaps(file.metadata)
                schema, row = file.schema_arrow, next(file.iter_batches(batch_size=1), None)
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as a Parquet file: {error}. Write or copy it again.") from None
    numbers, shapes, left_out = {}, {}, {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        shape = _first_shape(kind, None if row is None else row.column(name))
        try:
            spec = ParquetColumn.of(name, kind, shape).spec
        except ValueError:
            left_out[name] = "of another type"
            continue
        if spec.dtype == "string" or name in gaps:
            left_out[name] = "with texts" if spec.dtype == "string" else "with missing values"
            continue
        numbers[name] = spec
        if shape is not None:
            shapes[name] = shape
    return ParquetTable(tuple(schema.names), numbers, shapes, left_out)


def _gaps(metadata: Any) -> set[str]:
    """The columns of which the file itself says that values are missing."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    return {
        chunk.path_in_schema.partition(".")[0]
        for chunk in chunks
        if chunk.is_stats_set and chunk.statistics.has_null_count and chunk.statistics.null_count
    }


def _first_shape(kind: Any, values: Any) -> tuple[int, ...] | None:
    """The shape of lists whose type does not say it."""
    types = load_pyarrow().types
    if values is None or not len(values) or not (types.is_list(kind) or types.is_large_list(kind)):
        return None
    return (len(values[0]),) if values[0].is_valid and len(values[0]) else None
