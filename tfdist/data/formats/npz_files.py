"""Arrays in npz files: read into memory, or mapped from the file where they are large and not compressed."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError

MAPPED_FROM_BYTES = 256 << 20
"""Smaller arrays are read into memory, where a batch is gathered faster."""

_LOCAL_HEADER = struct.Struct("<26xHH")
"""Of a member of a zip file: how long its name and its extra field are, which stand between it and the data."""


def read_npz(path: str | os.PathLike[str], split: str) -> tuple[NDArray, NDArray]:
    """Reads the arrays `x_SPLIT` and `y_SPLIT` of an npz file.

    What `numpy.savez` wrote and is larger than `MAPPED_FROM_BYTES` is mapped: a `numpy.memmap`, whose checksum nobody
    checks. What `numpy.savez_compressed` wrote is always read into memory.

    Args:
        path: The file. It never holds pickled objects.
        split: `train` or `test`.

    Raises:
        DataError: The file is missing, unreadable or damaged, or lacks an array.
    """
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds a single array. Expected an npz file as numpy.savez writes it.")
        with file:
            return _member(file, path, f"x_{split}"), _member(file, path, f"y_{split}")
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    except DataError:
        raise
    except Exception as error:
        # Damaged bytes make numpy and zipfile raise nearly anything: ValueError, BadZipFile, TokenError, zlib.error.
        raise DataError(f"{path} is no npz file, holds pickled objects or is damaged: {error}.") from error


def _member(file: np.lib.npyio.NpzFile, path: str | os.PathLike[str], name: str) -> NDArray:
    if name not in file.files:
        raise DataError(
            f"{path} has no array {name}. Expected x_train, y_train, x_test and y_test, of which a split "
            f"uses two. Received: {', '.join(file.files)}"
        )
    assert file.zip is not None, "open until numpy closes it"
    member = file.zip.getinfo(f"{name}.npy")
    if member.compress_type == zipfile.ZIP_STORED and member.file_size >= MAPPED_FROM_BYTES:
        return _mapped(Path(path), member)
    return file[name]


def _mapped(path: Path, member: zipfile.ZipInfo) -> NDArray:
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        file.seek(sum(_LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))), os.SEEK_CUR)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran_order, dtype = read(file)
        if dtype.hasobject:
            raise ValueError(f"{member.filename} holds pickled objects")
        offset = file.tell()
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran_order else "C")
