"""Which arrays of an npz file are samples and labels, by their names."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence

from tfdist.errors import DataError

_X = ("x", "data", "features", "inputs", "images")
_Y = ("y", "label", "labels", "target", "targets", "class")

Names = dict[str, str]
"""`x` and `y` -> the name of the array."""


def chosen_arrays(path: str, x: str | None, y: str | None) -> tuple[Names, Names]:
    """The arrays to train on, and those to validate on; empty where there are none.

    Args:
        path: The file.
        x: The array of samples; None to find it.
        y: The array of labels; None to find it.

    Raises:
        DataError: The file cannot be read, or which ones it is to be is not clear.
    """
    names = _names_in(path)
    for given, option in ((x, "--x"), (y, "--label")):
        if given is not None and given not in names:
            raise DataError(f"{path} has no array {given}. Expected {option}, one of {', '.join(names)}.")
    train = {"x": x or _named(names, _X, "train"), "y": y or _named(names, _Y, "train")}
    if not all(train.values()):
        raise DataError(
            f"{path}: which arrays are samples and labels is not clear by their names. Expected x_train and y_train, "
            f"or --x NAME and --label NAME. Received: {', '.join(names) or 'no array'}"
        )
    test = {"x": _named(names, _X, "test"), "y": _named(names, _Y, "test")}
    has_test = x is None and y is None and all(test.values())
    return train, test if has_test else {}


def _named(names: Sequence[str], known: Sequence[str], part: str) -> str:
    """The array with a name of these, of the part or, to train on, of none; empty where there is none."""
    wanted = [f"{name}_{part}" for name in known] + (list(known) if part == "train" else [])
    return next((name for want in wanted for name in names if name.lower() == want), "")


def _names_in(path: str) -> list[str]:
    try:
        with zipfile.ZipFile(path) as file:
            return [name.removesuffix(".npy") for name in file.namelist()]
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:
        # Damaged bytes make zipfile raise nearly anything.
        raise DataError(f"{path} is not an npz file or is damaged: {error}.") from error
