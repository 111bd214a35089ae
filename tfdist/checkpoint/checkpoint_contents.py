"""Checks the contents of a checkpoint's files before anything is made of them.

Its marker tells that no byte has changed, not who wrote them. A file may name another one, or claim sizes beyond all
memory; Keras and NumPy would follow it. What tfdist writes has neither links nor compression, so that no array is
larger than its file.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import h5py
import numpy as np

from tfdist.checkpoint.checkpoint_files import REPLICAS, WEIGHTS, StoredCheckpoint, StoredPath, opened, summary_of
from tfdist.checkpoint.checkpoint_summary import CheckpointSummary
from tfdist.checkpoint.shards.sharded_file import opened_weights
from tfdist.errors import RunDirError

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def contents_fault(checkpoint: StoredCheckpoint) -> str | None:
    """Returns what is wrong with what a whole checkpoint holds, for people; None for nothing.

    Raises:
        RunDirError: It cannot be reached.
    """
    try:
        summary = summary_of(checkpoint)
        with _damaged(REPLICAS), opened(checkpoint.path / REPLICAS) as file:
            check_arrays(file)
    except ValueError as error:
        return str(error)
    fault = weights_fault(checkpoint)
    if fault is not None:
        return fault
    try:
        CheckpointSummary.from_dict(summary)
    except RunDirError as error:
        return str(error)
    return None


def weights_fault(checkpoint: StoredCheckpoint) -> str | None:
    """Returns what is wrong with what its file of weights holds, for people; None for nothing."""
    try:
        with _damaged(WEIGHTS), opened_weights(checkpoint.path) as file, h5py.File(file, "r") as weights:
            check_weights(weights, _size_of(file))
    except ValueError as error:
        return str(error)
    return None


def check_weights(weights: h5py.File, size: int) -> None:
    """Checks that a file of weights holds all of its arrays itself.

    Args:
        weights: The open file.
        size: Its bytes.

    Raises:
        ValueError: It leads to another file, or its arrays would take more memory than it has bytes.
    """
    claimed = 0

    # h5py stops at what these functions return; it loses what they raise.
    def fault_of_link(name: str, link: Any) -> str | None:
        return None if isinstance(link, h5py.HardLink) else f"{name} is a link"

    def fault_of(name: str, item: Any) -> str | None:
        nonlocal claimed
        if not isinstance(item, h5py.Dataset):
            return None
        if item.external or item.is_virtual:
            return f"{name} lies in another file"
        claimed += item.nbytes
        return f"{name} would take more memory than the file has bytes" if claimed > size else None

    fault = weights.visititems_links(fault_of_link) or weights.visititems(fault_of)
    if fault is not None:
        raise ValueError(fault)


def check_arrays(file: IO[bytes]) -> None:
    """Checks that a file of `numpy.savez` holds plain arrays, none of which takes more memory than it has bytes.

    Raises:
        ValueError: It holds something else.
        zipfile.BadZipFile: It is no such file.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > _size_of(file):
            raise ValueError("its arrays would take more memory than it has bytes")
        for member in members:
            with archive.open(member) as content:
                _check_header(member.filename, content, member.file_size)


def load_arrays(path: StoredPath) -> dict[str, np.ndarray]:
    """The arrays of a file of `numpy.savez` by name.

    Raises:
        ValueError: It holds something else; see `check_arrays`.
    """
    with _damaged(path.name), opened(path) as file:
        check_arrays(file)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)


def _check_header(name: str, content: IO[bytes], size: int) -> None:
    version = np.lib.format.read_magic(content)
    if version not in _HEADERS:
        raise ValueError(f"{name} has the version {version} of NumPy's format")
    shape, _, dtype = _HEADERS[version](content)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"{name} would take more memory than it has bytes")


def _size_of(file: IO[bytes]) -> int:
    place = file.tell()
    size = file.seek(0, 2)
    file.seek(place)
    return size


@contextlib.contextmanager
def _damaged(name: str) -> Iterator[None]:
    """Turns what reading a damaged file raises, which HDF5, zip and NumPy do in many types, into a `ValueError`."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{name} cannot be used: {error}") from error
