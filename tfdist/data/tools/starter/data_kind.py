"""Format of data, by its name and, of a folder, by what lies in it."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Literal, NamedTuple

from tfdist.data.files.image_folder import SUFFIXES
from tfdist.errors import DataError

_ENDS = {".npz": "npz", ".csv": "csv", ".parquet": "parquet"} | dict.fromkeys(
    (".tfrecord", ".tfrecords", ".tfrec"), "tfrecord"
)
_EXPECTED = (
    "an .npz, .csv, .parquet or .tfrecord file, a pattern of such files in quotes, or a folder with one folder of "
    "images a class"
)

_BY_HAND = {".tar": "webdataset", ".txt": "text", ".tsv": "text"}
_PREPARED = "dataset_info.json"
"""The file that TensorFlow Datasets writes beside the files of a dataset."""

_OTHERS = "The other formats: docs/data.md"


class DataKind(NamedTuple):
    """The data that was found.

    Attributes:
        format: As a config names it.
        path: The file, the pattern or the folder.
    """

    format: Literal["npz", "csv", "parquet", "tfrecord", "images"]
    path: str


def kind_of(data: str) -> DataKind:
    """Returns which format some data has.

    Raises:
        DataError: There is nothing, or it is none that a config can be made for.
    """
    path = Path(data).expanduser()
    if path.is_dir():
        return _of_folder(path)
    matches = [str(path)] if path.exists() else sorted(glob.glob(str(path)))
    if not matches:
        raise DataError(f"There is no {path.absolute()}. Expected {_EXPECTED}. Received: {data}")
    formats = {_ENDS.get(Path(match).suffix.lower()) for match in matches}
    if len(formats) > 1 or None in formats:
        raise DataError(f"Expected {_EXPECTED}. Received: {', '.join(matches[:3])}. {_by_hand(path)}")
    (found,) = formats
    return DataKind(found, str(path))  # type: ignore[arg-type]


def _of_folder(folder: Path) -> DataKind:
    if any(path.suffix.lower() in SUFFIXES for path in folder.glob("*/*")) or _parts(folder):
        return DataKind("images", str(folder))
    for end, name in _ENDS.items():
        if any(folder.glob(f"*{end}")):
            return DataKind(name, str(Path(glob.escape(str(folder))) / f"*{end}"))  # type: ignore[arg-type]
    raise DataError(f"{folder} has none of these. Expected {_EXPECTED}. Received: {folder}. {_by_hand(folder)}")


def _by_hand(path: Path) -> str:
    """Returns what to do about data that no config is made for."""
    if path.is_dir() and not (path / _PREPARED).is_file():
        return _OTHERS
    form = "tfds" if path.is_dir() else _BY_HAND.get(path.suffix.lower())
    return f"A config of {form} is written by hand: `format: {form}`, see docs/data.md" if form else _OTHERS


def _parts(folder: Path) -> bool:
    return any(path.suffix.lower() in SUFFIXES for path in folder.glob("train/*/*"))
