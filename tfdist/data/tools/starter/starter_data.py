"""The facts on data for a config to start with: its sections, the shape of a sample and the kind of its labels.

Kind of labels: classes or numbers.

Which arrays of an npz file are samples and labels, by their names.
"""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.file_patterns import matching
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.formats.csv_files import CsvReader, common_header
from tfdist.data.formats.npz_files import ArrayHeader, read_headers
from tfdist.data.sequential.sequential_tfrecords import open_tfrecords
from tfdist.data.tools.starter.data_kind import DataKind, Features, features_of, parquet_table
from tfdist.errors import DataError, UsageError

_MOST_ROWS = 100_000
"""Rows of a file whose labels are looked at."""

_TYPED_ROWS = 100
_MOST_PIXELS = 128
"""Images are resized to this height and width at most: a start, and no more."""

_LABEL_NAMES = ("label", "labels", "y", "target", "class")
_VALIDATION_FOLDERS = ("validation", "val", "valid", "test")
MOST_CLASSES = 1000
"""Whole numbers above are taken for quantities."""
_X = ("x", "data", "features", "inputs", "images")
_Y = ("y", "label", "labels", "target", "targets", "class")

Names = dict[str, str]
"""`x` and `y` -> the name of the array."""


@dataclass(frozen=True)
class StarterData:
    """The data that was found.

    Attributes:
        train: The section `data.train`.
        shape: Of a sample.
        labels: What its labels are.
        samples: How many samples there are.
        validation: The section `data.validation`; None without samples for it.
        notes: What a reader of the config must know besides, a line each.
    """

    train: Mapping[str, Any]
    shape: tuple[int, ...]
    labels: Labels
    samples: int
    validation: Mapping[str, Any] | None = None
    notes: Sequence[str] = field(default_factory=list)


def look_at(kind: DataKind, label: str | None, x: str | None = None) -> StarterData:
    """Looks at data.

    Args:
        kind: Its format and path.
        label: The column, feature or array that is the label; None to find it by its name.
        x: The array of samples of an npz file; None to find it by its name.

    Raises:
        DataError: It cannot be read, or cannot be trained on as it is.
        UsageError: `label` or `x` is given for a format that has no such names.
    """
    if label is not None and kind.format == "images":
        problem = "--label names a column of CSV or Parquet files, a feature of TFRecord files, or an array of an .npz"
        raise UsageError(f"{problem}. Received: --label {label} for {kind.path}. Leave it out.")
    if x is not None and kind.format != "npz":
        raise UsageError(f"--x names an array of an .npz file. Received: --x {x} for {kind.path}. Leave it out.")
    if kind.format == "npz":
        return _npz(kind.path, x, label)
    if kind.format == "images":
        return _images(kind.path)
    return {"csv": _csv, "parquet": _parquet, "tfrecord": _tfrecord}[kind.format](kind.path, label)


def _npz(path: str, x_name: str | None, y_name: str | None) -> StarterData:
    train, test = chosen_arrays(path, x_name, y_name)
    x, y = read_headers(path, (train["x"], train["y"]))
    if x.dtype.kind not in "biuf":
        raise DataError(f"{path}: {train['x']} has the type {x.dtype}. Expected numbers, which the models here take.")
    if x.shape[0] != y.shape[0]:
        raise DataError(
            f"{path}: expected as many labels as samples. Received: {x.shape[0]} in {train['x']} and {y.shape[0]} in "
            f"{train['y']}"
        )
    with np.load(path, allow_pickle=False) as file:
        labels = labels_of(file[train["y"]])
    if test and not _fits(x, *read_headers(path, (test["x"],))):
        test = {}
    sections = [{"format": "npz", "path": path, **_as_split(names)} for names in (train, test) if names]
    validation = sections[1] if test else None
    return StarterData({**sections[0], "shuffle": True}, x.shape[1:], labels, x.shape[0], validation)


def _as_split(names: Mapping[str, str]) -> Mapping[str, str]:
    """Returns what a section has for two arrays: where they are called so, the split alone."""
    split = names["x"].removeprefix("x_")
    return {"split": split} if split in ("train", "test") and names["y"] == f"y_{split}" else names


def _fits(train: ArrayHeader, test: ArrayHeader) -> bool:
    return test.shape[0] > 0 and test.shape[1:] == train.shape[1:]


def _csv(files: str, label: str | None) -> StarterData:
    paths = matching(files)
    header = common_header(paths)
    chosen, note = _label(header, label, "column")
    numeric = _numeric_columns(paths[0], header)
    if chosen not in numeric:
        raise DataError(
            f"The column {chosen} of {paths[0]} holds texts. Expected numbers as labels. Number the classes from 0, or "
            "name another column with --label."
        )
    columns = [name for name in numeric if name != chosen]
    if not columns:
        raise DataError(f"{paths[0]} has no column of numbers besides the label {chosen}. Expected one or more for x.")
    left_out = [name for name in header if name not in numeric]
    reader = CsvReader(paths, chosen, columns)
    _, values = reader.read(np.arange(min(len(reader), _MOST_ROWS), dtype=np.int64))
    section = {"format": "csv", "files": files, "label": chosen, "shuffle": True}
    if left_out:
        section["columns"] = columns
        note = [*note, f"columns that hold texts are left out: {', '.join(left_out)}"]
    return StarterData(section, (len(columns),), labels_of(values), len(reader), notes=note)


def _numeric_columns(path: Path, header: Sequence[str]) -> list[str]:
    """The columns that hold numbers in the first rows."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(islice((row for row in csv.reader(file) if row), 1, _TYPED_ROWS + 1))
    return [name for place, name in enumerate(header) if all(_is_number(row[place : place + 1]) for row in rows)]


def _is_number(field: Sequence[str]) -> bool:
    try:
        return all(math.isfinite(float(text)) for text in field) and len(field) == 1
    except ValueError:
        return False


def _parquet(files: str, label: str | None) -> StarterData:
    paths = matching(files)
    table = parquet_table(paths)
    chosen, note = _label(table.names, label, "column")
    if chosen not in table.numbers:
        raise DataError(
            f"The column {chosen} of {paths[0]} is one {table.left_out[chosen]}. Expected numbers in every row as "
            "labels. Number the classes from 0, or name another column with --label."
        )
    columns = tuple(name for name in table.numbers if name != chosen)
    if not columns:
        raise DataError(f"{paths[0]} has no column of numbers besides the label {chosen}. Expected one or more for x.")
    for why in sorted(set(table.left_out.values())):
        left_out = [name for name, reason in table.left_out.items() if reason == why]
        note = [*note, f"columns {why} are left out: {', '.join(left_out)}"]
    labels = table.reader(paths, chosen, ())
    values = labels.read(np.arange(min(len(labels), _MOST_ROWS), dtype=np.int64))[-1]
    section: dict[str, Any] = {"format": "parquet", "files": files, "label": chosen}
    if table.left_out:
        section["columns"] = list(columns)
    if shapes := {name: list(shape) for name, shape in table.shapes.items() if name in (*columns, chosen)}:
        section["shapes"] = shapes
    shape = table.numbers[columns[0]].shape
    if len(columns) > 1 or not shape:
        section["stack"] = True
        shape = (sum(math.prod(table.numbers[name].shape) for name in columns),)
    return StarterData({**section, "shuffle": True}, shape, labels_of(values), len(labels), notes=note)


def _images(folder: str) -> StarterData:
    root = Path(folder)
    train = root / "train" if (root / "train").is_dir() else root
    found = ImageFiles.find(train)
    size, channels = _image_size(found.paths[0])
    section = {"format": "images", "path": str(train), "size": list(size), "channels": channels}
    other = next((root / name for name in _VALIDATION_FOLDERS if (root / name).is_dir()), None)
    has_other = train != root and other is not None and ImageFiles.find(other).classes == found.classes
    return StarterData(
        {**section, "shuffle": True},
        (*size, channels),
        Labels("classes", len(found.classes)),
        len(found),
        {**section, "path": str(other)} if has_other else None,
        [f"classes are numbered by their names: 0 is {found.classes[0]}"],
    )


def _image_size(path: Path) -> tuple[tuple[int, int], int]:
    """Height and width of an image, made smaller where they are large, and its channels without transparency."""
    # Imported here: other formats need no TensorFlow.
    import tensorflow as tf

    try:
        height, width, channels = tf.io.decode_image(path.read_bytes(), expand_animations=False).shape
    except (OSError, tf.errors.InvalidArgumentError) as error:
        raise DataError(f"Cannot read the image {path}. Expected a BMP, GIF, JPEG or PNG. Received: {error}") from error
    scale = min(1.0, _MOST_PIXELS / max(height, width))
    return (max(1, round(height * scale)), max(1, round(width * scale))), 1 if channels <= 2 else 3


def _tfrecord(files: str, label: str | None) -> StarterData:
    reader = open_tfrecords(files)
    records = reader.read(np.arange(min(len(reader), _MOST_ROWS), dtype=np.int64)).cut()
    features = features_of(records, files)
    chosen, note = _label(list(features.kinds), label, "feature", any_name=False)
    x = features.input_for(chosen)
    section = {
        "format": "tfrecord",
        "files": files,
        "features": {name: features.kinds[name].section for name in (x, chosen)},
        "label": chosen,
        "shuffle": True,
    }
    left_out = [name for name in features.kinds if name not in (x, chosen)] + list(features.unfit)
    if left_out:
        note = [*note, f"the models here take one input: features that are left out: {', '.join(left_out)}"]
    labels = labels_of(_label_values(features, chosen))
    return StarterData(section, features.kinds[x].shape, labels, len(reader), notes=note)


def _label_values(features: Features, name: str) -> Any:
    if features.kinds[name].dtype not in ("int64", "float32"):
        raise DataError(f"The feature {name} holds bytes. Expected numbers as labels. Name another one with --label.")
    return features.values(name)


def _label(names: Sequence[str], given: str | None, what: str, any_name: bool = True) -> tuple[str, list[str]]:
    """The column or feature that is the label, and what is to be said of the choice."""
    if given is not None:
        if given not in names:
            raise DataError(f"There is no {what} {given}. Expected --label, one of {', '.join(names)}.")
        return given, []
    by_name = next((name for name in names if name.lower() in _LABEL_NAMES), None)
    if by_name is None and not any_name:
        raise DataError(f"No {what} is called {', '.join(_LABEL_NAMES)}. Expected --label, one of {', '.join(names)}.")
    if by_name is not None:
        return by_name, []
    return names[-1], [f"the label is taken to be the last {what}: --label names another"]


@dataclass(frozen=True)
class Labels:
    """The kind of the labels of some samples.

    Attributes:
        kind: `classes` for their numbers, `one_hot`, or `numbers` for what is to be predicted as it is.
        size: How many classes, or how many numbers a label has.
    """

    kind: Literal["classes", "one_hot", "numbers"]
    size: int

    @property
    def words(self) -> str:
        """`10 classes`, or `3 numbers`."""
        word = "number" if self.kind == "numbers" else "class"
        plural = {"number": "numbers", "class": "classes"}[word]
        return f"{self.size} {word if self.size == 1 else plural}"


def labels_of(values: NDArray) -> Labels:
    """Returns what labels are, of shape [k] or [k, n].

    Raises:
        DataError: They are no numbers, or have another shape.
    """
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2):
        raise DataError(
            f"The labels have the type {values.dtype} and the shape {values.shape}. Expected numbers, one or a row of "
            "them for each sample."
        )
    if values.ndim == 2 and values.shape[1] > 1:
        is_one_hot = bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())
        return Labels("one_hot" if is_one_hot else "numbers", values.shape[1])
    is_whole = bool(np.isfinite(values).all() and (values == np.round(values)).all())
    if is_whole and values.min() >= 0 and values.max() < min(MOST_CLASSES, max(2, len(values))):
        return Labels("classes", int(values.max()) + 1)
    return Labels("numbers", 1)


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
