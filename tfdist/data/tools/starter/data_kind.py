"""The kind of data: its format by its name, and what records and Parquet files have."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tfdist.data.files.image_folder import SUFFIXES
from tfdist.data.files.parquet_footers import check_footers
from tfdist.data.random_access.parquet_columns import ParquetColumn, load_pyarrow
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.data.sample_source import ArraySpec
from tfdist.errors import DataError

_TYPED_RECORDS = 100


@dataclass(frozen=True)
class FeatureKind:
    """The kind of a feature.

    Attributes:
        dtype: As in a config.
        shape: Without the batch.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def section(self) -> dict[str, Any]:
        """Its section in a config."""
        return {"dtype": self.dtype, **({"shape": list(self.shape)} if self.shape else {})}


@dataclass(frozen=True)
class Features:
    """The features of some records.

    Attributes:
        kinds: Those that a config can describe, by name.
        unfit: The names of the others, which records lack or whose lengths differ.
        examples: The records.
    """

    kinds: Mapping[str, FeatureKind]
    unfit: Sequence[str]
    examples: Sequence[Any]

    def input_for(self, label: str) -> str:
        """The feature to train on: an image, or else the longest that holds numbers.

        Raises:
            DataError: There is none besides the label.
        """
        others = {name: kind for name, kind in self.kinds.items() if name != label and kind.dtype != "string"}
        if not others:
            raise DataError(f"No feature besides {label} has numbers or images of one size. Expected one to train on.")
        return max(others, key=lambda name: (others[name].dtype == "image", int(np.prod(others[name].shape))))

    def values(self, name: str) -> NDArray:
        """The values of a feature that holds numbers, [k] or [k, n]."""
        kind = self.kinds[name]
        rows = [_list_of(example.features.feature[name])[1] for example in self.examples]
        return np.array(rows, kind.dtype).reshape(len(rows), *kind.shape)


def features_of(records: Sequence[bytes], origin: str) -> Features:
    """Looks at records; images are decoded, to know their sizes.

    Raises:
        DataError: They are none of `tf.train.Example`, or have no feature.
    """
    # Imported here: other formats need no TensorFlow.
    import tensorflow as tf
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        examples = [tf.train.Example.FromString(record) for record in records]
    except DecodeError as error:
        raise DataError(
            f"The records of {origin} are none of tf.train.Example. Expected such records. For others write "
            "data.train.parse, the dotted path of a function that parses one."
        ) from error
    typed = examples[:_TYPED_RECORDS]
    names = sorted({name for example in typed for name in example.features.feature})
    if not names:
        raise DataError(f"The records of {origin} have no features. Expected those of tf.train.Example with values.")
    found = {name: _kind([example.features.feature.get(name) for example in typed]) for name in names}
    kinds = {name: kind for name, kind in found.items() if kind is not None}
    return Features(kinds, [name for name in names if name not in kinds], examples)


def _list_of(feature: Any) -> tuple[str, Sequence[Any]]:
    kind = feature.WhichOneof("kind") or "int64_list"
    return kind, getattr(feature, kind).value


def _kind(features: Sequence[Any]) -> FeatureKind | None:
    if any(feature is None for feature in features):
        return None
    lists = [_list_of(feature) for feature in features]
    kinds, lengths = {kind for kind, _ in lists}, {len(values) for _, values in lists}
    if len(kinds) > 1 or len(lengths) > 1 or lengths == {0}:
        return None
    (kind,), (length,) = kinds, lengths
    if kind == "bytes_list":
        return _image_or_string(lists[0][1][0]) if length == 1 else None
    return FeatureKind("int64" if kind == "int64_list" else "float32", () if length == 1 else (length,))


def _image_or_string(content: bytes) -> FeatureKind:
    import tensorflow as tf

    try:
        height, width, channels = tf.io.decode_image(content, expand_animations=False).shape
    except tf.errors.InvalidArgumentError:
        return FeatureKind("string", ())
    return FeatureKind("image", (height, width, channels if channels in (1, 3, 4) else 3))


@dataclass(frozen=True)
class ParquetTable:
    """The columns of Parquet files.

    Attributes:
        names: Of all columns.
        numbers: Those that hold numbers without a gap -> the type and shape of a value.
        shapes: Those of them whose type says no shape -> the shape that the first row has.
        left_out: The others -> why, in words.
    """

    names: tuple[str, ...]
    numbers: Mapping[str, ArraySpec]
    shapes: Mapping[str, tuple[int, ...]]
    left_out: Mapping[str, str]

    def reader(self, paths: tuple[Path, ...], label: str, columns: tuple[str, ...]) -> ParquetReader:
        """A reader of some columns, and the label as the last."""
        shapes = {name: shape for name, shape in self.shapes.items() if name in (*columns, label)}
        return ParquetReader(paths, ParquetFeatures(label, columns, shapes))


def parquet_table(paths: tuple[Path, ...]) -> ParquetTable:
    """Looks at the files' own indices, and at the first row.

    Raises:
        DataError: A file cannot be read as Parquet.
        UsageError: pyarrow is not installed.
    """
    arrow = load_pyarrow()
    check_footers(paths)
    gaps: set[str] = set()
    try:
        for path in reversed(paths):
            with arrow.parquet.ParquetFile(path) as file:
                gaps |= _gaps(file.metadata)
                schema, row = file.schema_arrow, next(file.iter_batches(batch_size=1), None)
    except (OSError, ValueError, arrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as a Parquet file: {error}. Write or copy it again.") from None
    numbers, shapes, left_out = {}, {}, {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        shape = _first_shape(kind, None if row is None else row.column(name))
        try:
            spec = ParquetColumn.of(name, kind, shape).spec
        except ValueError:
            left_out[name] = "of another type"
            continue
        if spec.dtype == "string" or name in gaps:
            left_out[name] = "with texts" if spec.dtype == "string" else "with missing values"
            continue
        numbers[name] = spec
        if shape is not None:
            shapes[name] = shape
    return ParquetTable(tuple(schema.names), numbers, shapes, left_out)


def _gaps(metadata: Any) -> set[str]:
    """The columns of which the file itself says that values are missing."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    return {
        chunk.path_in_schema.partition(".")[0]
        for chunk in chunks
        if chunk.is_stats_set and chunk.statistics.has_null_count and chunk.statistics.null_count
    }


def _first_shape(kind: Any, values: Any) -> tuple[int, ...] | None:
    """The shape of lists whose type does not say it."""
    types = load_pyarrow().types
    if values is None or not len(values) or not (types.is_list(kind) or types.is_large_list(kind)):
        return None
    return (len(values[0]),) if values[0].is_valid and len(values[0]) else None


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
