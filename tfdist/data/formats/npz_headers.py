"""What arrays an npz file holds, from their headers: nothing else of it is read."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np

from tfdist.data.formats.npz_files import MAPPED_FROM_BYTES
from tfdist.errors import DataError


@dataclass(frozen=True)
class ArrayHeader:
    """One array.

    Attributes:
        shape: With the samples along the first axis.
        dtype: As it lies in the file.
        stored: Bytes that it takes in the file.
        mapped: Whether it is mapped from the file and read row by row, as large arrays that are not compressed are.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    stored: int
    mapped: bool = False


def read_headers(path: str | os.PathLike[str], names: tuple[str, ...]) -> tuple[ArrayHeader, ...]:
    """Returns the headers of some of an npz file's arrays.

    Raises:
        DataError: The file is missing, unreadable or damaged, or lacks an array, or one of them holds Python objects.
    """
    try:
        with zipfile.ZipFile(path) as file:
            return tuple(_header(file, path, name) for name in names)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, ValueError, EOFError, zlib.error, NotImplementedError) as error:
        raise DataError(f"{path} is no npz file or is damaged: {error}.") from error


def _header(file: zipfile.ZipFile, path: str | os.PathLike[str], name: str) -> ArrayHeader:
    members = {member.filename.removesuffix(".npy"): member for member in file.infolist()}
    if name not in members:
        raise DataError(
            f"{path} has no array {name}. Expected x_train, y_train, x_test and y_test, of which a split "
            f"uses two. Received: {', '.join(members)}"
        )
    with file.open(members[name]) as array:
        version = np.lib.format.read_magic(array)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(array)
    if dtype.hasobject:
        raise DataError(f"{path}: the array {name} holds Python objects. Expected numbers or strings.")
    if not shape:
        raise DataError(f"{path}: the array {name} is a single value. Expected samples along its first axis.")
    member = members[name]
    mapped = member.compress_type == zipfile.ZIP_STORED and member.file_size >= MAPPED_FROM_BYTES
    return ArrayHeader(shape, dtype, member.compress_size, mapped)
