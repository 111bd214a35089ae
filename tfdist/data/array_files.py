"""Arrays in npz files."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError


def read_npz(path: str | os.PathLike[str], split: str) -> tuple[NDArray, NDArray]:
    """Reads the arrays `x_SPLIT` and `y_SPLIT` of an npz file.

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
    return file[name]
