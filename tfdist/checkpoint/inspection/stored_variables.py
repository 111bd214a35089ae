"""Variables of a checkpoint, read from its files by h5py and NumPy, without a model and without TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import h5py
import numpy as np

from tfdist.checkpoint.checkpoint_contents import check_weights, load_arrays
from tfdist.checkpoint.checkpoint_files import REPLICAS, StoredPath
from tfdist.checkpoint.inspection.checkpoint_entries import CheckpointEntry
from tfdist.checkpoint.shards.joined_file import opened_weights
from tfdist.errors import DataError

_BFLOAT16 = "bfloat16"
"""NumPy has no such type: Keras stores its two bytes as they are, with this name as an attribute."""


@dataclass(frozen=True)
class StoredVariable:
    """A variable of a checkpoint.

    Attributes:
        name: Its place in the file of weights, such as `layers/dense/0`; those of the replicas begin with `replicas/`.
        owner: The name of the layer or optimizer that it belongs to; empty where `name` has it.
        shape: Its shape.
        dtype: The name of its type.
        read: Reads it as float64, also bools and integers; None for what is not a number. Raises `DataError` where the
            file is damaged.
    """

    name: str
    owner: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray | None]

    def norm(self) -> float | None:
        """The square root of the sum of its squares; None for what is not a number."""
        values = self.read()
        return None if values is None else float(np.linalg.norm(values))


class StoredVariables:
    """The variables of a checkpoint. A context: its files are open inside.

    Args:
        entry: The checkpoint.
    """

    def __init__(self, entry: CheckpointEntry) -> None:
        self._folder = entry.stored.path
        self._files = contextlib.ExitStack()

    def __enter__(self) -> dict[str, StoredVariable]:
        """The variables by their names, in the order of the files.

        Raises:
            DataError: A file cannot be read.
        """
        try:
            with reading(self._folder):
                file = self._files.enter_context(opened_weights(self._folder))
                size = file.seek(0, os.SEEK_END)
                h5 = self._files.enter_context(h5py.File(file, "r"))
                check_weights(h5, size)
                found = [*_of_weights(h5, self._folder), *_of_replicas(self._folder / REPLICAS)]
        except BaseException:
            self.__exit__()
            raise
        return {variable.name: variable for variable in found}

    def __exit__(self, *_: object) -> None:
        self._files.close()


@contextlib.contextmanager
def reading(folder: StoredPath) -> Iterator[None]:
    """Turns every exception of reading the files of a checkpoint into a `DataError`.

    For a damaged file, HDF5, zip and NumPy raise exceptions of many types.

    Raises:
        DataError: It cannot be read, or is gone.
    """
    try:
        yield
    except Exception as error:
        raise DataError(
            f"The checkpoint {folder} cannot be read: {error}. `tfdist checkpoints verify` says what is damaged; "
            "choose another with --step."
        ) from error


def _of_weights(file: h5py.File, folder: StoredPath) -> Iterator[StoredVariable]:
    found: list[tuple[str, h5py.Dataset]] = []
    file.visititems(lambda name, item: found.append((name, item)) if isinstance(item, h5py.Dataset) else None)
    for name, data in sorted(found, key=lambda pair: _natural(pair[0])):
        place, _, key = name.rpartition("/")
        place = place.removesuffix("vars").rstrip("/")
        owner = str(data.parent.attrs.get("name", ""))
        shown = "" if owner == place.rpartition("/")[2] else owner
        is_bfloat16 = data.attrs.get("dtype") == _BFLOAT16
        dtype = _BFLOAT16 if is_bfloat16 else str(data.dtype)
        read = _reader(data, is_bfloat16, folder)
        yield StoredVariable(f"{place}/{key}".lstrip("/"), shown, tuple(data.shape), dtype, read)


def _reader(data: h5py.Dataset, is_bfloat16: bool, folder: StoredPath) -> Callable[[], np.ndarray | None]:
    def read() -> np.ndarray | None:
        with reading(folder):
            values = np.asarray(data[()])
            return _from_bfloat16(values) if is_bfloat16 else _numbers(values)

    return read


def _of_replicas(path: StoredPath) -> Iterator[StoredVariable]:
    if not path.exists():
        return
    for name, values in sorted(load_arrays(path).items(), key=lambda item: _natural(item[0])):
        read = functools.partial(_numbers, values)
        yield StoredVariable(f"replicas/{name}", "", values.shape, str(values.dtype), read)


def _numbers(values: np.ndarray) -> np.ndarray | None:
    if values.dtype.kind not in "biuf":
        return None
    return values.astype(np.float64)


def _from_bfloat16(values: np.ndarray) -> np.ndarray:
    """Each is the upper half of a float32."""
    halves = np.frombuffer(values.tobytes(), np.uint16).astype(np.uint32)
    return (halves << 16).view(np.float32).astype(np.float64).reshape(values.shape)


def _natural(name: str) -> list[tuple[int, str | int]]:
    """Orders `vars/2` before `vars/10`."""
    return [(1, int(part)) if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
