"""The `data.train` and `data.validation` sections of a config: one class for each format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from tfdist.config.field_errors import FieldError, nearest, shown
from tfdist.config.section import DottedPath, PositiveInt, Rule, Section, Text

Files = Annotated[
    Text | Sequence[Text],
    Rule("a file name, a pattern such as train-*.tfrecord, or a list of them", len, {"minItems": 1}),
]


def _none_below_0(numbers: Sequence[int]) -> bool:
    return min(numbers, default=0) >= 0


def _all_from_1(numbers: Sequence[int]) -> bool:
    return len(numbers) > 0 and min(numbers) >= 1


def _is_size(size: Sequence[int]) -> bool:
    return len(size) == 2 and min(size) >= 1


_FROM_1 = {"type": "integer", "minimum": 1}
_SIZE = {"minItems": 2, "maxItems": 2, "items": _FROM_1}

Columns = Annotated[Sequence[Text], Rule("a list of column names, or null for all", len, {"minItems": 1})]
Shape = Annotated[
    Sequence[int], Rule("a list of integers of 1 or more", _all_from_1, {"minItems": 1, "items": _FROM_1})
]
Counts = Annotated[
    Sequence[int],
    Rule("a list of integers of 0 or more", _none_below_0, {"items": {"type": "integer", "minimum": 0}}),
]


@dataclass(frozen=True, kw_only=True)
class SourceConfig(Section):
    """The place that samples come from.

    Attributes:
        format: Which of the subclasses this is.
        shuffle: Whether every epoch has an order of its own, which the seed determines.
        augment: Dotted path of a function from a sample `(x, y)` and a seed, int32 [2], to the sample to train on. The
            seed depends only on the run's seed, the epoch and the sample.
        on_nan: `stop` ends the run at a sample with a NaN and names it; `keep` does not check.
        classes: Labels must be integers from 0 to `classes - 1`; null if they are something else.
        sharding: `auto` shards the data, which all workers see alike, between the workers; with `none` each worker sees
            its own shard already.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("files",)
    """The keys whose values are paths, relative to the config file."""

    format: str
    shuffle: bool = False
    augment: DottedPath | None = None
    on_nan: Literal["keep", "stop"] = "keep"
    classes: PositiveInt | None = None
    sharding: Literal["auto", "none"] = "auto"

    @classmethod
    def described(cls) -> str:
        if cls is not SourceConfig:
            return super().described()
        return f"a section whose key format is one of {', '.join(FORMATS)}"

    @classmethod
    def choose(cls, content: Mapping[str, Any]) -> type[Self]:
        if "format" not in content:
            raise FieldError("format", f"this key is missing. Expected one of {', '.join(FORMATS)}")
        name = content["format"]
        chosen = FORMATS.get(name) if isinstance(name, str) else None
        if chosen is None or not issubclass(chosen, cls):
            near = nearest(str(name), FORMATS)
            hint = f"; did you mean {near}?" if near else "."
            raise FieldError("format", f"expected one of {', '.join(FORMATS)}{hint} Received: {shown(name)}")
        return chosen


@dataclass(frozen=True, kw_only=True)
class NpzSource(SourceConfig):
    """NumPy arrays in an npz file: `x_SPLIT` and `y_SPLIT`, or those that are named.

    Attributes:
        path: The file.
        split: Which arrays of it: x_train and y_train, or x_test and y_test; null where both have names.
        x: The name of the array of samples; null for x_SPLIT.
        y: The name of the array of labels; null for y_SPLIT.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("path",)

    format: Literal["npz"] = "npz"
    path: Text
    split: Literal["train", "test"] | None = None
    x: Text | None = None
    y: Text | None = None

    def check(self) -> None:
        if self.split is None and None in (self.x, self.y):
            problem = "expected train or test, or the names of the arrays, x and y, instead of it"
            raise FieldError("split", f"{problem}. Received: null")

    @property
    def arrays(self) -> tuple[str, str]:
        """The names of the arrays: of the samples, and of the labels."""
        return self.x or f"x_{self.split}", self.y or f"y_{self.split}"


@dataclass(frozen=True, kw_only=True)
class FeatureConfig(Section):
    """One feature of a TFRecord's `tf.train.Example`.

    Attributes:
        dtype: Its type in the record; `image` for the bytes of a BMP, GIF, JPEG or PNG, which is decoded to float32.
        shape: Without the batch; empty for one value. An image is resized to `[height, width, channels]`.
    """

    dtype: Literal["float32", "int64", "string", "image"]
    shape: Annotated[
        Sequence[int],
        Rule("a list of integers of 1 or more", lambda sizes: min(sizes, default=1) >= 1, {"items": _FROM_1}),
    ] = ()

    def check(self) -> None:
        if self.dtype == "image" and (len(self.shape) != 3 or self.shape[2] not in (1, 3, 4)):
            raise FieldError(
                "shape",
                "expected [height, width, channels] of an image, with 1, 3 or 4 channels. Received: "
                f"{shown(self.shape)}",
            )


@dataclass(frozen=True, kw_only=True)
class TfrecordSource(SourceConfig):
    """TFRecord files, parsed by a function of the user's or by a list of features.

    Attributes:
        files: Names or patterns.
        parse: Dotted path of a function from one serialized record to `(x, y)`.
        features: Feature name -> its type, instead of `parse`.
        label: Which of the features is `y`.
        on_corrupt: `stop` ends the run at a corrupt record; `skip` leaves corrupt records out, the same on all workers.
        shuffle_buffer: For files that are read in sequence, because they are compressed or not local: samples in the
            shuffle buffers of all files that are read at the same time.
        interleave: For such files: how many are read at the same time at most, on which the order of the samples
            depends.
    """

    format: Literal["tfrecord"] = "tfrecord"
    files: Files
    parse: DottedPath | None = None
    features: Mapping[str, FeatureConfig] | None = None
    label: str | None = None
    on_corrupt: Literal["stop", "skip"] = "stop"
    shuffle_buffer: PositiveInt = 16384
    interleave: PositiveInt = 64

    def check(self) -> None:
        if (self.parse is None) == (self.features is None):
            received = "both" if self.parse else "neither"
            raise FieldError("parse", f"expected either parse or features with label. Received: {received}")
        if self.parse is not None and self.label is not None:
            raise FieldError(
                "label", f"expected no label beside parse, which says itself what y is. Received: {shown(self.label)}"
            )
        if self.features is not None:
            _check_label(self.label, self.features)


@dataclass(frozen=True, kw_only=True)
class WebdatasetSource(SourceConfig):
    """Plain tar files of the WebDataset layout: members of the same name are a sample, their extensions its parts.

    Attributes:
        files: Names or patterns.
        features: Extension -> what it holds.
        label: The extension of the part that is `y`.
    """

    format: Literal["webdataset"] = "webdataset"
    files: Files
    features: Mapping[str, FeatureConfig]
    label: Text

    def check(self) -> None:
        _check_label(self.label, self.features)
        for name, feature in self.features.items():
            if feature.dtype == "string" and feature.shape:
                expected = "expected no shape of a string, which is one value"
                raise FieldError("features", f"{name}: {expected}. Received: {shown(feature.shape)}")


@dataclass(frozen=True, kw_only=True)
class CsvSource(SourceConfig):
    """CSV files whose first line names the columns.

    Attributes:
        files: Names or patterns; all have the same header.
        label: The column that is `y`.
        columns: The columns that make up `x`, in this order; null takes all but the label.
    """

    format: Literal["csv"] = "csv"
    files: Files
    label: Text
    columns: Columns | None = None

    def check(self) -> None:
        if self.columns is not None and self.label in self.columns:
            raise FieldError("columns", f"expected none to be the label. Received: {shown(self.columns)}")


@dataclass(frozen=True, kw_only=True)
class ParquetSource(SourceConfig):
    """Parquet files, read by pyarrow.

    Attributes:
        files: Names or patterns; all have the same columns.
        label: The column that is `y`.
        columns: The columns of `x`, in this order; null takes all but the label.
        shapes: Column -> the shape of its values, for columns of lists.
        stack: Whether `x` is one float32 vector of all its columns; else a dict, or a tensor where there is one column.
        interleave: How many row groups are read and mixed at the same time at most, on which the order of the samples
            depends.
    """

    format: Literal["parquet"] = "parquet"
    files: Files
    label: Text
    columns: Columns | None = None
    shapes: Mapping[str, Shape] | None = None
    stack: bool = False
    interleave: PositiveInt = 64

    def check(self) -> None:
        if self.columns is not None and self.label in self.columns:
            raise FieldError("columns", f"expected none to be the label. Received: {shown(self.columns)}")


@dataclass(frozen=True, kw_only=True)
class ImagesSource(SourceConfig):
    """A folder with one folder of images for each class; classes are numbered in the order of their names.

    Attributes:
        path: The folder.
        size: `[height, width]` in pixels to which every image is resized.
        channels: 1 grey, 3 colour, 4 colour with transparency.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("path",)

    format: Literal["images"] = "images"
    path: Text
    size: Annotated[
        Sequence[int],
        Rule("[height, width], two integers of 1 or more", _is_size, _SIZE),
    ]
    channels: Literal[1, 3, 4] = 3


@dataclass(frozen=True, kw_only=True)
class TextSource(SourceConfig):
    """Text files with one sample a line: a label, a separator and the text.

    Attributes:
        files: Names or patterns, in UTF-8.
        label_separator: What separates the label, an integer, from the text.
        vectorize: Dotted path of a function from strings [k] to `x` [k, ...]; null keeps the strings.
    """

    format: Literal["text"] = "text"
    files: Files
    label_separator: Text = "\t"
    vectorize: DottedPath | None = None


@dataclass(frozen=True, kw_only=True)
class GeneratorSource(SourceConfig):
    """Samples that a Python function makes, one after another.

    Attributes:
        function: Dotted path of a function that returns an iterable over samples `(x, y)`, the same samples in the same
            order at each call; with `lanes` it is called with the number of a lane.
        samples: How many samples there are; with `lanes` a list with the number of each lane. null counts them at the
            start of the run.
        lanes: Parts of the samples, which the workers share; null if every worker makes all samples.
        shuffle_buffer: Samples in the shuffle buffers of all lanes together.
    """

    PATHS: ClassVar[tuple[str, ...]] = ()

    format: Literal["generator"] = "generator"
    function: DottedPath
    samples: PositiveInt | Counts | None = None
    lanes: PositiveInt | None = None
    shuffle_buffer: PositiveInt = 16384

    def check(self) -> None:
        given = len(self.samples) if isinstance(self.samples, Sequence) else 1
        if self.samples is not None and given != (self.lanes or 1):
            expected = f"{self.lanes} integers, the samples of each lane" if self.lanes else "an integer without lanes"
            raise FieldError("samples", f"expected {expected}. Received: {shown(self.samples)}")


@dataclass(frozen=True, kw_only=True)
class TfdsSource(SourceConfig):
    """A dataset of TensorFlow Datasets that was prepared before, as TFRecord files.

    Attributes:
        name: `NAME` or `NAME/CONFIG`, with or without `:VERSION`.
        split: A split, or a part of it such as `train[:80%]`.
        data_dir: The folder of prepared datasets; null for that of TensorFlow Datasets, `~/tensorflow_datasets`.
        features: The features of `x`; null for those that the dataset names as its input, or all but the label.
        label: The feature that is `y`; null for that which the dataset names.
        map: Instead of `features` and `label`, the dotted path of a function from an example, a dict of tensors, to
            `(x, y)`.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("data_dir",)

    format: Literal["tfds"] = "tfds"
    name: Text
    split: Text
    data_dir: Text | None = None
    features: Annotated[Sequence[Text], Rule("a list of feature names, or null", len, {"minItems": 1})] | None = None
    label: Text | None = None
    map: DottedPath | None = None

    def check(self) -> None:
        if self.map is not None and (self.features is not None or self.label is not None):
            raise FieldError("map", "expected no features and no label beside map, which says itself what x and y are")


FORMATS: Mapping[str, type[SourceConfig]] = {
    "npz": NpzSource,
    "tfrecord": TfrecordSource,
    "csv": CsvSource,
    "parquet": ParquetSource,
    "images": ImagesSource,
    "text": TextSource,
    "generator": GeneratorSource,
    "webdataset": WebdatasetSource,
    "tfds": TfdsSource,
}


def _check_label(label: str | None, features: Mapping[str, FeatureConfig]) -> None:
    if label not in features:
        near = nearest(label or "", features)
        hint = f"; did you mean {near}?" if near else "."
        raise FieldError("label", f"expected one of the features {', '.join(features)}{hint} Received: {shown(label)}")
    if len(features) < 2:
        raise FieldError("features", f"expected the label and at least one other. Received: {', '.join(features)}")
