"""Reader of Parquet files by their row groups, each of which is decoded as a whole.

The order that fits such data is that of `tfdist.order.sequential_order` with row groups as its files: each is read once
an epoch, several at the same time are mixed, and within each all rows are.
"""

from __future__ import annotations

import bisect
import difflib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_facts import changed_error
from tfdist.data.files.parquet_footers import check_footers
from tfdist.data.files.remote_files import stamp_of
from tfdist.data.random_access.parquet_columns import ParquetColumn, load_pyarrow
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError
from tfdist.order.sequential_order import LANES, Lanes

HELD_BYTES = 1 << 30
"""The memory, in bytes, that row groups that are read at the same time, and those that follow them, may take."""


_MOST_ROWS = 1 << 31
"""Of a row group: those of one that is larger could not be permuted."""


class RowGroup(NamedTuple):
    """A row group of a file.

    Attributes:
        file: The place of its file.
        number: Its number in the file.
        rows: Its rows.
        stored: Bytes of its columns in the file, compressed.
        decoded: Bytes of them in memory, about.
    """

    file: int
    number: int
    rows: int
    stored: int
    decoded: int


@dataclass(frozen=True)
class ParquetFeatures:
    """The columns that are read.

    Attributes:
        label: The column that is `y`.
        columns: Those of `x`, in this order; None for all but the label.
        shapes: Column -> the shape of its values, for lists.
    """

    label: str
    columns: Sequence[str] | None = None
    shapes: Mapping[str, Sequence[int]] | None = None


class ParquetReader:
    """Reads rows by their numbers, which count over all files. Safe to use from several threads.

    Attributes:
        paths: The files, in the order of their rows.
        groups: Their row groups that have rows, in this order.
        columns: What is read: those of `x`, then `y`.
        lanes: How row groups are read at the same time.
    """

    def __init__(self, paths: tuple[Path, ...], features: ParquetFeatures, interleave: int = LANES) -> None:
        """Reads the files' own indices, and no row.

        Args:
            paths: The files; some may be without rows.
            features: Which columns are read.
            interleave: How many row groups are read at the same time, at most: fewer where they are large.

        Raises:
            DataError: A file is damaged or cannot be read, columns are missing or differ, or there is no row.
            UsageError: pyarrow is not installed.
        """
        self._arrow = load_pyarrow()
        self.paths = paths
        self._stamps = [stamp_of(str(path)) for path in paths]
        check_footers(paths)
        footers = [self._footer(path) for path in paths]
        self.columns = self._columns_of(footers, features)
        self.groups = tuple(group for file, footer in enumerate(footers) for group in self._listed(file, footer))
        if not self.groups:
            some = ", ".join(map(str, paths[:3])) + (", ..." if len(paths) > 3 else "")
            raise DataError(f"Expected at least one row. Received: {len(paths)} file(s) without any: {some}.")
        self._ends = np.cumsum([group.rows for group in self.groups]).tolist()
        largest = max(group.decoded for group in self.groups)
        number = min(interleave, len(self.groups), max(1, HELD_BYTES // (2 * max(1, largest))))
        counts = tuple(group.rows for group in self.groups)
        # A row group is in memory as a whole: so all its rows are mixed.
        self.lanes = Lanes(counts, number, max(counts))
        self._decoded: OrderedDict[int, list[NDArray]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def specs(self) -> tuple[ArraySpec, ...]:
        """See `SampleReader.specs`: one array a column."""
        return tuple(column.spec for column in self.columns)

    def read(self, indices: NDArray[np.int64]) -> list[NDArray]:
        """Returns the columns of the rows `indices` [k], each [k, ...].

        Raises:
            DataError: A row group is damaged, lacks a value, or its file can no longer be read or has changed.
        """
        found = [np.empty((len(indices), *spec.shape), _numpy_type(spec)) for spec in self.specs]
        places = np.searchsorted(self._ends, indices, side="right")
        with self._lock:
            for group in np.unique(places).tolist():
                rows = np.flatnonzero(places == group)
                inside = indices[rows] - (self._ends[group] - self.groups[group].rows)
                for column, values in zip(found, self._group(group), strict=True):
                    column[rows] = values[inside]
        return found

    def name(self, index: int) -> str:
        """Names a row for errors: its file, and its number in it, counted from 0."""
        place = bisect.bisect_right(self._ends, index)
        group = self.groups[place]
        before = sum(other.rows for other in self.groups[:place] if other.file == group.file)
        row = before + index - (self._ends[place] - group.rows)
        return f"{self.paths[group.file]}, row {row}"

    def group_name(self, group: RowGroup) -> str:
        """Names a row group."""
        return f"{self.paths[group.file]}, row group {group.number}"

    def _group(self, place: int) -> list[NDArray]:
        """A row group's columns; of those that were read last, some are kept."""
        values = self._decoded.pop(place, None)
        if values is None:
            while len(self._decoded) >= 2 * self.lanes.number:
                self._decoded.popitem(last=False)
            values = self._decode(self.groups[place])
        self._decoded[place] = values
        return values

    def _decode(self, group: RowGroup) -> list[NDArray]:
        path = self.paths[group.file]
        if stamp_of(str(path)) != self._stamps[group.file]:
            raise changed_error(path)
        names = list(dict.fromkeys(column.name for column in self.columns))
        try:
            with self._arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read_row_group(group.number, columns=names)
        except (OSError, ValueError, self._arrow.ArrowException) as error:
            raise DataError(
                f"{self.group_name(group)} is damaged or cannot be read: {_first_line(error)}. Write or copy the file "
                "again; tfdist data check finds all such row groups."
            ) from None
        if table.num_rows != group.rows:
            raise DataError(f"{self.group_name(group)} has {table.num_rows} rows, and its file says {group.rows}.")
        return [self._values(column, table, group) for column in self.columns]

    def _values(self, column: ParquetColumn, table: Any, group: RowGroup) -> NDArray:
        try:
            return column.values(table.column(column.name))
        except (ValueError, self._arrow.ArrowException) as error:
            raise DataError(
                f"{self.group_name(group)}, column {column.name}: {_first_line(error)}. Expected a value of one shape "
                "in every row. Fill it in, or leave the row out when the file is written."
            ) from None

    def _footer(self, path: Path) -> Any:
        """The metadata of a file, and its schema."""
        try:
            with self._arrow.parquet.ParquetFile(path) as file:
                return file.metadata, file.schema_arrow
        except (OSError, ValueError, self._arrow.ArrowException) as error:
            raise _no_parquet(path, error) from None

    def _listed(self, file: int, footer: Any) -> list[RowGroup]:
        try:
            return self._groups_of(file, footer)
        except (OSError, ValueError, self._arrow.ArrowException) as error:
            raise _no_parquet(self.paths[file], error) from None

    def _columns_of(self, footers: Sequence[Any], features: ParquetFeatures) -> tuple[ParquetColumn, ...]:
        schema = footers[0][1]
        names = list(features.columns) if features.columns is not None else _all_but(schema, features.label)
        shapes = {name: tuple(shape) for name, shape in (features.shapes or {}).items()}
        if unknown := sorted(shapes.keys() - {*names, features.label}):
            raise DataError(f"shapes has {', '.join(unknown)}, which is not read. Read: {', '.join(names)}.")
        columns = []
        for name in [*names, features.label]:
            kind = _type_of(name, schema, self.paths[0])
            try:
                columns.append(ParquetColumn.of(name, kind, shapes.get(name)))
            except ValueError as error:
                raise DataError(f"{self.paths[0]}, column {name}: {error}.") from None
        for path, (_, other) in zip(self.paths[1:], footers[1:], strict=True):
            for column in columns:
                here, there = _type_of(column.name, schema, self.paths[0]), _type_of(column.name, other, path)
                if here != there:
                    raise DataError(
                        f"{path}, column {column.name}: its type is {there}. Expected {here}, as in {self.paths[0]}. "
                        "Write all files with one schema."
                    )
        return tuple(columns)

    def _groups_of(self, file: int, footer: Any) -> list[RowGroup]:
        metadata = footer[0]
        fixed = sum(_numpy_type(spec).itemsize * int(np.prod(spec.shape)) for spec in self.specs)
        texts = {column.name for column in self.columns if column.spec.dtype == "string"}
        names = {column.name for column in self.columns}
        groups = []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if not 0 <= group.num_rows < _MOST_ROWS:
                raise ValueError(f"its row group {number} is said to have {group.num_rows} rows")
            chunks = [group.column(place) for place in range(group.num_columns)]
            mine = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in names]
            stored = sum(chunk.total_compressed_size for chunk in mine)
            long = sum(c.total_uncompressed_size for c in mine if c.path_in_schema.partition(".")[0] in texts)
            if group.num_rows:
                groups.append(RowGroup(file, number, group.num_rows, stored, group.num_rows * fixed + long))
        return groups


def _all_but(schema: Any, label: str) -> list[str]:
    return [name for name in dict.fromkeys(schema.names) if name != label]


def _type_of(name: str, schema: Any, path: Path) -> Any:
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return schema.field(places[0]).type
    if places:
        raise DataError(f"{path} has {len(places)} columns named {name!r}. Expected one. Rename them.")
    near = difflib.get_close_matches(name, schema.names, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise DataError(f"{path} has no column {name}. It has: {', '.join(schema.names)}.{hint}")


def _no_parquet(path: Path, error: BaseException) -> DataError:
    return DataError(
        f"{path} cannot be read as a Parquet file: {_first_line(error)}. What was to write it may have been "
        "interrupted: write or copy it again."
    )


def _numpy_type(spec: ArraySpec) -> np.dtype:
    return np.dtype(np.object_) if spec.dtype == "string" else np.dtype(spec.dtype)


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
