"""npz files: arrays that are read into memory, or mapped from the file where they are large and not compressed."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tfdist.config.data_sections import NpzSource
from tfdist.data.files.file_facts import local_file_system
from tfdist.data.files.file_patterns import check_local
from tfdist.data.sample_source import ArraySpec, SampleSource, SampleSpecs
from tfdist.errors import DataError
from tfdist.plan.plan_inputs import FileSizes, SourceSizes

MAPPED_FROM_BYTES = 256 << 20
"""Smaller arrays are read into memory, where a batch is gathered faster."""

_LOCAL_HEADER = struct.Struct("<26xHH")
"""The local header of a member of a zip file: the lengths of its name and extra field, which its data follows."""


def open_source(section: NpzSource, key: str) -> SampleSource:
    """See `FormatModule.open_source`."""
    return npz_source(section.path, section.arrays)


def sample_specs(section: NpzSource) -> SampleSpecs:
    """See `FormatModule.sample_specs`."""
    check_local(section.path)
    x, y = read_headers(section.path, section.arrays)
    return SampleSpecs(_spec(x), _spec(y))


def measure(section: NpzSource, key: str) -> SourceSizes:
    """See `FormatModule.measure`."""
    check_local(section.path)
    x, y = read_headers(section.path, section.arrays)
    samples, labels = x.shape[0], y.shape[0]
    if samples != labels:
        raise DataError(
            f"{section.path}, {' and '.join(section.arrays)}: expected arrays with the same number of samples. "
            f"Received: {samples} and {labels}"
        )
    if not samples:
        raise DataError(f"{section.path}, {section.arrays[0]}: expected at least one sample. Received: none.")
    sample = _row_bytes(x) + _row_bytes(y)
    file = FileSizes(section.path, samples, x.stored + y.stored)
    return SourceSizes(
        "npz",
        (file,),
        sample,
        held_bytes=samples * sum(_row_bytes(array) for array in (x, y) if not array.mapped),
        # Each worker reads its own rows of a mapped array; labels are too small to count.
        whole=not x.mapped,
        local_disk=local_file_system(section.path),
    )


def npz_source(path: str | os.PathLike[str], arrays: str | tuple[str, str]) -> SampleSource:
    """The arrays of one split of an npz file, or those with two names."""
    # Imported here: to look up sizes takes no TensorFlow.
    from tfdist.data.formats.array_samples import array_source

    check_local(path)
    x, y = read_npz(path, arrays)
    named = " and ".join(_names(arrays))
    try:
        return array_source(x, y, f"{path}, {named}")
    except DataError as error:
        raise DataError(f"{path}, {named}: {error}") from error


def _names(arrays: str | tuple[str, str]) -> tuple[str, str]:
    return (f"x_{arrays}", f"y_{arrays}") if isinstance(arrays, str) else arrays


def read_npz(path: str | os.PathLike[str], arrays: str | tuple[str, str]) -> tuple[NDArray, NDArray]:
    """Reads two arrays of an npz file.

    An array that `numpy.savez` wrote and that is larger than `MAPPED_FROM_BYTES` is mapped: a `numpy.memmap`, whose
    checksum is not verified. What `numpy.savez_compressed` wrote is always read into memory.

    Args:
        path: The file. It never holds pickled objects.
        arrays: `train` or `test`, for `x_SPLIT` and `y_SPLIT`, or the names of both.

    Raises:
        DataError: The file is missing, unreadable or damaged, or lacks an array.
    """
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds a single array. Expected an npz file as numpy.savez writes it.")
        with file:
            x, y = _names(arrays)
            return _member(file, path, x), _member(file, path, y)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    except DataError:
        raise
    except Exception as error:
        # Damaged bytes make numpy and zipfile raise nearly anything: ValueError, BadZipFile, TokenError, zlib.error.
        raise DataError(f"{path} is not an npz file, holds pickled objects or is damaged: {error}.") from error


def _member(file: np.lib.npyio.NpzFile, path: str | os.PathLike[str], name: str) -> NDArray:
    if name not in file.files:
        raise _lacking(path, name, file.files)
    assert file.zip is not None, "open until numpy closes it"
    member = file.zip.getinfo(f"{name}.npy")
    if _is_mapped(member):
        return _mapped(Path(path), member)
    array = file[name]
    # NumPy hands out the bytes of what does not begin as an array does.
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{member.filename} does not hold an array")
    return array


def _is_mapped(member: zipfile.ZipInfo) -> bool:
    return member.compress_type == zipfile.ZIP_STORED and member.file_size >= MAPPED_FROM_BYTES


def _mapped(path: Path, member: zipfile.ZipInfo) -> NDArray:
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        file.seek(sum(_LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))), os.SEEK_CUR)
        shape, fortran_order, dtype = _array_header(file)
        if dtype.hasobject:
            raise ValueError(f"{member.filename} holds pickled objects")
        offset = file.tell()
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran_order else "C")


@dataclass(frozen=True)
class ArrayHeader:
    """The contents of the header of an array in an npz file.

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
    """Returns the headers of some of an npz file's arrays; nothing else of it is read.

    Raises:
        DataError: The file is missing, unreadable or damaged, or lacks an array, or one of them holds Python objects.
    """
    try:
        with zipfile.ZipFile(path) as file:
            return tuple(_header(file, path, name) for name in names)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    except DataError:
        raise
    except Exception as error:
        # As in `read_npz`.
        raise DataError(f"{path} is not an npz file or is damaged: {error}.") from error


def _header(file: zipfile.ZipFile, path: str | os.PathLike[str], name: str) -> ArrayHeader:
    members = {member.filename.removesuffix(".npy"): member for member in file.infolist()}
    if name not in members:
        raise _lacking(path, name, members)
    with file.open(members[name]) as array:
        shape, _, dtype = _array_header(array)
    if dtype.hasobject:
        raise DataError(f"{path}: the array {name} holds Python objects. Expected numbers or strings.")
    if min(shape, default=0) < 0:
        raise DataError(f"{path}: the array {name} is damaged, its shape is {shape}.")
    if not shape:
        raise DataError(f"{path}: the array {name} is a single value. Expected samples along its first axis.")
    return ArrayHeader(shape, dtype, members[name].compress_size, _is_mapped(members[name]))


def _array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, Fortran order and type of the array that an open npy file holds; its data comes next."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def _lacking(path: str | os.PathLike[str], name: str, received: Iterable[str]) -> DataError:
    return DataError(
        f"{path} has no array {name}. Expected x_train, y_train, x_test and y_test, of which a split uses two, or "
        f"others that the section names by x and y. Received: {', '.join(received)}"
    )


def _spec(array: ArrayHeader) -> ArraySpec:
    """One sample as a tensor: floating-point numbers become float32, as in Keras."""
    kind = array.dtype.kind
    dtype = "float32" if kind == "f" else "string" if kind in "SU" else array.dtype.name
    return ArraySpec(dtype, array.shape[1:])


def _row_bytes(array: ArrayHeader) -> int:
    """Bytes of one sample in memory, where floating-point numbers are float32."""
    width = 4 if array.dtype.kind == "f" else array.dtype.itemsize
    return math.prod(array.shape[1:]) * width
