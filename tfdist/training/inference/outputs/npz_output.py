"""Predictions as arrays in an npz file: one for each output, and the samples' numbers."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import UsageError
from tfdist.training.inference.outputs.output_formats import INDEX, Blocks, OutputColumn


def check(columns: Sequence[OutputColumn]) -> None:
    """See `OutputFormat.check`."""
    strange = next((column.name for column in columns if "/" in column.name or "\0" in column.name), None)
    if strange is not None:
        raise UsageError(
            f"The output {strange!r} would be a member of a zip file of that name. Expected a name without / and "
            "without a zero byte. Rename the output, or choose another --format."
        )


def write(path: Path, columns: Sequence[OutputColumn], samples: int, blocks: Blocks) -> None:
    """See `OutputFormat.write`.

    Texts are arrays of bytes as long as the longest of them, and need no pickle; NumPy drops zero bytes at their ends.
    """
    with zipfile.ZipFile(path, "w", allowZip64=True) as file:
        _add(file, INDEX, np.dtype(np.int64), (samples,), _numbers(blocks))
        for place, column in enumerate(columns):
            dtype = np.dtype(f"S{_longest(place, blocks)}") if column.is_text else np.dtype(column.dtype)
            _add(file, column.name, dtype, (samples, *column.shape), (arrays[place] for _, arrays in blocks()))


def notes(path: Path, columns: Sequence[OutputColumn]) -> list[str]:
    """See `OutputFormat.notes`."""
    return []


def _numbers(blocks: Blocks) -> Iterator[NDArray]:
    for start, arrays in blocks():
        yield np.arange(start, start + len(arrays[0]), dtype=np.int64)


def _longest(place: int, blocks: Blocks) -> int:
    return max((len(text) for _, arrays in blocks() for text in arrays[place].ravel().tolist()), default=1) or 1


def _add(
    file: zipfile.ZipFile, name: str, dtype: np.dtype, shape: tuple[int, ...], pieces: Iterator[NDArray]
) -> None:
    # Without a time of its own, so that the same predictions are the same bytes.
    with file.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(cast(BinaryIO, member), header)
        for piece in pieces:
            member.write(np.ascontiguousarray(piece.astype(dtype, copy=False)).tobytes())
