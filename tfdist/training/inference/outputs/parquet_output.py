"""Predictions as a Parquet file: a column for each output, after that with the samples' numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfdist.data.random_access.parquet_columns import load_pyarrow
from tfdist.training.inference.outputs.output_formats import INDEX, Blocks, OutputColumn

_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 1 << 16
_TEXT_BYTES = 64


def check(columns: Sequence[OutputColumn]) -> None:
    """See `OutputFormat.check`."""
    load_pyarrow()


def write(path: Path, columns: Sequence[OutputColumn], samples: int, blocks: Blocks) -> None:
    """See `OutputFormat.write`. An output of several values is a list of them, one after another."""
    arrow = load_pyarrow()
    fields = [(INDEX, arrow.int64())]
    fields += [(column.name, _kind(arrow, column, place, blocks)) for place, column in enumerate(columns)]
    schema = arrow.schema(fields)
    with arrow.parquet.ParquetWriter(str(path), schema) as writer:
        for arrays in _groups(blocks, _rows(columns)):
            made = [_column(arrow, array, field.type) for array, field in zip(arrays, schema, strict=True)]
            writer.write_table(arrow.Table.from_arrays(made, schema=schema), row_group_size=len(arrays[0]))


def notes(path: Path, columns: Sequence[OutputColumn]) -> list[str]:
    """See `OutputFormat.notes`."""
    return []


def _rows(columns: Sequence[OutputColumn]) -> int:
    """The rows of a row group, which its file's readers hold as a whole."""
    row = sum(column.size * (_TEXT_BYTES if column.is_text else np.dtype(column.dtype).itemsize) for column in columns)
    return max(1, min(_GROUP_ROWS, _GROUP_BYTES // max(1, row)))


def _groups(blocks: Blocks, rows: int) -> Iterator[list[NDArray]]:
    """The samples' numbers and the outputs, as many rows at a time, however they lie in blocks."""
    held: list[list[NDArray]] = []
    count = 0
    for start, arrays in blocks():
        block = [np.arange(start, start + len(arrays[0]), dtype=np.int64), *arrays]
        while count + len(block[0]) >= rows:
            taken = rows - count
            yield _joined([*held, [array[:taken] for array in block]])
            block, held, count = [array[taken:] for array in block], [], 0
        if len(block[0]):
            held.append(block)
            count += len(block[0])
    if held:
        yield _joined(held)


def _joined(blocks: Sequence[Sequence[NDArray]]) -> list[NDArray]:
    return [np.concatenate(arrays) for arrays in zip(*blocks, strict=True)]


def _kind(arrow: Any, column: OutputColumn, place: int, blocks: Blocks) -> Any:
    if column.is_text:
        value = arrow.string() if _is_utf8(place, blocks) else arrow.binary()
    else:
        value = arrow.from_numpy_dtype(np.dtype(column.dtype))
    return arrow.list_(value, column.size) if column.shape else value


def _is_utf8(place: int, blocks: Blocks) -> bool:
    try:
        for _, arrays in blocks():
            for text in arrays[place].ravel().tolist():
                text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _column(arrow: Any, array: NDArray, kind: Any) -> Any:
    if not arrow.types.is_fixed_size_list(kind):
        return _values(arrow, array, kind)
    return arrow.FixedSizeListArray.from_arrays(_values(arrow, array.ravel(), kind.value_type), type=kind)


def _values(arrow: Any, array: NDArray, kind: Any) -> Any:
    if array.dtype.hasobject:
        return arrow.array(array.tolist(), arrow.binary()).cast(kind)
    return arrow.array(np.ascontiguousarray(array), kind)
