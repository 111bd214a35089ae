"""The public functions: one a format, each from files to what Keras `fit` takes.

Besides what names the samples, all of them take `batch_size` (samples of a step over all replicas), `shuffle`, `seed`,
`strategy`, `augment`, `on_nan`, `classes` and `sharding`, and return a `tf.data.Dataset` for one replica and a
`tf.distribute.DistributedDataset` for several: see `tfdist.data.pipeline`. All workers call them together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack

import tensorflow as tf

from tfdist.config.data_sections import SourceConfig
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.argument_checks import integer
from tfdist.data.files.file_patterns import FilePatterns, matching
from tfdist.data.files.image_folder import ImageFiles
from tfdist.data.format_registry import open_source
from tfdist.data.formats.array_samples import array_source
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.formats.generator_samples import GeneratorSamples
from tfdist.data.formats.image_samples import ImageSamples
from tfdist.data.formats.npz_files import npz_source
from tfdist.data.formats.reader_samples import ParquetSamples, ReaderSamples
from tfdist.data.formats.tar_reader import TarReader
from tfdist.data.formats.text_files import text_source
from tfdist.data.formats.tfrecord_samples import Feature, feature_config, tfrecord_source
from tfdist.data.formats.webdataset_samples import WebdatasetSamples
from tfdist.data.ops.sample_batches import Augment
from tfdist.data.ops.sample_checks import OnNan
from tfdist.data.pipeline import Batches, OpenedDataset, open_and_build
from tfdist.data.random_access.numbered_records import OnCorrupt
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.data.sample_feed import Companion
from tfdist.data.sample_source import SampleSource
from tfdist.data.worker_consistency import Sharding
from tfdist.order.epoch_span import START, Position
from tfdist.order.sequential_order import LANES, SHUFFLE_BUFFER


def from_config(
    config: SourceConfig,
    batch_size: int,
    seed: int | None = None,
    strategy: tf.distribute.Strategy | None = None,
    key: str = "data.train",
    begin: Position = START,
    class_weight: Mapping[int, float] | None = None,
    steps_per_epoch: int | None = None,
    open_companion: Callable[[SampleSource], Companion] | None = None,
) -> OpenedDataset:
    """Opens what a section describes. All workers call it together.

    Args:
        config: The section.
        batch_size: Samples of a step over all replicas.
        seed: The seed of the order; by default the run's.
        strategy: By default the current one.
        key: The section's dotted key, for the errors.
        begin: Where the training resumes.
        class_weight: Class number -> the weight of its samples; None for samples without weights.
        steps_per_epoch: Steps of an epoch; None for a pass over the samples.
        open_companion: Opens what comes beside the samples of the source; None for nothing.

    Raises:
        ConfigError: A dotted path does not import or names no function.
        DataError: On any worker the data is missing, damaged or empty; or it differs between workers.
    """
    return open_and_build(
        partial(open_source, config, key),
        sharding=config.sharding,
        batch_size=batch_size,
        shuffle=config.shuffle,
        seed=seed,
        strategy=strategy,
        begin=begin,
        augment=resolve_callable(config.augment, f"{key}.augment") if config.augment else None,
        on_nan=config.on_nan,
        classes=config.classes,
        class_weight=class_weight,
        steps_per_epoch=steps_per_epoch,
        open_companion=open_companion,
    )


class _Required(TypedDict):
    batch_size: int


class BatchOptions(_Required, total=False):
    """The options by which samples become batches: the keyword arguments of `tfdist.data.pipeline`."""

    shuffle: bool
    seed: int | None
    strategy: tf.distribute.Strategy | None
    augment: Augment | None
    on_nan: OnNan
    classes: int | None
    sharding: Sharding


def arrays(x: Any, y: Any = None, **batching: Unpack[BatchOptions]) -> Batches:
    """Batches `(x, y)` of arrays, or structures of arrays; without `y`, of `x` alone.

    Arrays that are mapped from a file (`numpy.load("x.npy", mmap_mode="r")`) stay there: only the rows of a batch are
    read. Others are taken into memory.

    Raises:
        DataError: Arrays differ in their number of samples, have none, or hold neither numbers nor strings.
    """
    return _batches(lambda: array_source(x, y), batching)


def npz(path: str | os.PathLike[str], split: str = "train", **batching: Unpack[BatchOptions]) -> Batches:
    """Batches of the arrays `x_SPLIT` and `y_SPLIT` of an npz file; see `read_npz` for what is read into memory.

    Raises:
        DataError: The file is missing or damaged, or lacks an array; or see `arrays`.
    """
    return _batches(lambda: npz_source(path, split), batching)


def tfrecords(
    files: FilePatterns,
    parse: Callable[[tf.Tensor], Any] | None = None,
    *,
    features: Mapping[str, Feature] | None = None,
    label: str | None = None,
    on_corrupt: OnCorrupt = "stop",
    shuffle_buffer: int = SHUFFLE_BUFFER,
    interleave: int = LANES,
    **batching: Unpack[BatchOptions],
) -> Batches:
    """Batches of the records of TFRecord files.

    Local files that are not compressed are read in any order. What is compressed (GZIP or ZLIB) or on another file
    system (`gs://`, `s3://`) is read in sequence, see `tfdist.order.sequential_order`.

    Args:
        files: A path, a pattern, or a list of these. Files are read in the order of their names; some may be empty.
        parse: From one record, a string scalar, to a sample `(x, y)`, in TensorFlow's operations.
        features: Instead of `parse`, the features of each record, a `tf.train.Example`: of fixed length, or a
            `tfdist.data.ImageFeature`. `x` is a dict, or a tensor when there is one feature besides the label.
        label: Which of `features` is `y`.
        on_corrupt: With `skip` the first run reads all data once, and what is corrupt is left out, on all workers
            alike; else a corrupt record is an error when it is read. Not for files that are read in sequence.
        shuffle_buffer: For files that are read in sequence: samples that wait to be mixed, over all files that are read
            at the same time.
        interleave: For these files: how many are read at the same time, at most. It is part of the order.
        **batching: See `tfdist.data.pipeline`.

    Raises:
        DataError: A file is missing, truncated or damaged, files are compressed in different ways, there is no record,
            or the first does not fit.
        UsageError: Neither or both of `parse` and `features` with `label` are given.
    """
    sequential = {"shuffle_buffer": shuffle_buffer, "interleave": interleave}
    return _batches(lambda: tfrecord_source(files, parse, features, label, on_corrupt, **sequential), batching)


def webdataset(
    files: FilePatterns, features: Mapping[str, Feature], label: str, **batching: Unpack[BatchOptions]
) -> Batches:
    """Batches of the samples of plain tar files of the WebDataset layout.

    Members of the same name, up to its first dot, are a sample: `0001.jpg` and `0001.cls` its parts `jpg` and `cls`.

    Args:
        files: A path, a pattern, or a list of these, of files that are not compressed.
        features: Extension -> a `tfdist.data.ImageFeature`, or a `tf.io.FixedLenFeature` of strings (the bytes of the
            part), or of int64 or float32, which are written as text or as a .npy file. `x` is a dict, or a tensor when
            there is one feature besides the label.
        label: Which of `features` is `y`.
        **batching: See `tfdist.data.pipeline`.

    Raises:
        DataError: A file is missing, compressed, damaged or cut off, a sample lacks a part, or there is no sample.
        UsageError: A feature is of another type.

    Example:
        >>> image = tfdist.data.ImageFeature(224, 224, 3)
        >>> features = {"jpg": image, "cls": tf.io.FixedLenFeature([], tf.int64)}
        >>> train = tfdist.data.webdataset("train-*.tar", features, "cls", batch_size=256, shuffle=True)
    """
    configs = {name: feature_config(name, feature) for name, feature in features.items()}
    return _batches(lambda: WebdatasetSamples(TarReader(matching(files), configs), label), batching)


def generator(
    function: Callable[..., Iterable[Any]],
    output_signature: Any = None,
    *,
    samples: int | Sequence[int] | None = None,
    lanes: int | None = None,
    shuffle_buffer: int = SHUFFLE_BUFFER,
    **batching: Unpack[BatchOptions],
) -> Batches:
    """Batches of the samples that a Python function makes, one after another.

    The function is called once an epoch and must give the same samples in the same order each time, on every
    worker. Without `lanes` every worker makes all samples and keeps its own; with them a worker makes some lanes alone.

    Args:
        function: Returns an iterable over samples, such as `(x, y)`; a function with `yield` does. Called without
            arguments or, with `lanes`, with the number of a lane.
        output_signature: The structure of a sample, of `tf.TensorSpec`s; None to take it from the first sample.
        samples: How many to take; with `lanes`, of each of them. None to count them once, at the start. A function may
            give more, even without end.
        lanes: Parts that the samples come in: `function(0)` gives the first part, `function(lanes - 1)` the last.
        shuffle_buffer: Samples that wait to be mixed, over all lanes.
        **batching: See `tfdist.data.pipeline`.

    Raises:
        DataError: There is no sample, or the first does not fit `output_signature`.
        UsageError: An argument is impossible.
    """
    return _batches(lambda: GeneratorSamples(function, output_signature, samples, lanes, shuffle_buffer), batching)


def csv(
    files: FilePatterns, label: str, columns: Sequence[str] | None = None, **batching: Unpack[BatchOptions]
) -> Batches:
    """Batches of the rows of CSV files of numbers, as float32: `x` [k, columns], `y` [k].

    Args:
        files: A path, a pattern, or a list of these; all files have the same header.
        label: The name of the column that is `y`.
        columns: The names of the columns that make up `x`; None for all but the label.
        **batching: See `tfdist.data.pipeline`.

    Raises:
        DataError: A file is missing or unreadable, headers differ or lack a column, or there is no row.
    """
    return _batches(lambda: ReaderSamples(CsvReader(matching(files), label, columns)), batching)


def parquet(
    files: FilePatterns,
    label: str,
    columns: Sequence[str] | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    stack: bool = False,
    interleave: int = LANES,
    **batching: Unpack[BatchOptions],
) -> Batches:
    """Batches of the rows of Parquet files, which pyarrow reads (the extra `parquet`).

    Row groups are read as a whole, each once an epoch, several at the same time, see `tfdist.order.sequential_order`.
    Floating-point numbers become float32; integers and booleans keep their types; texts and bytes are strings.

    Args:
        files: A path, a pattern, or a list of these; all files have the same columns.
        label: The name of the column that is `y`.
        columns: The names of the columns of `x`; None for all but the label.
        shapes: Column -> the shape of its values; for columns of lists whose type says no size.
        stack: Whether `x` is one float32 vector of all its columns; else a dict, or a tensor where there is one column.
        interleave: How many row groups are read and mixed at the same time, at most: fewer where they are large. It is
            part of the order.
        **batching: See `tfdist.data.pipeline`.

    Raises:
        DataError: A file is missing or damaged, lacks a column or has others, a value is missing, or there is no row.
        UsageError: pyarrow is not installed.

    Example:
        >>> train = tfdist.data.parquet("rows-*.parquet", "price", batch_size=1024, shuffle=True, seed=7)
    """
    interleave = integer("interleave", interleave, at_least=1)
    features = ParquetFeatures(label, columns, shapes)
    return _batches(
        lambda: ParquetSamples(ParquetReader(matching(files), features, interleave), stack=stack), batching
    )


def images(
    path: str | os.PathLike[str], size: Sequence[int], channels: int = 3, **batching: Unpack[BatchOptions]
) -> Batches:
    """Batches of the images (BMP, GIF, JPEG, PNG) of a folder with one folder a class.

    Args:
        path: The folder. Classes are numbered in the order of their folders' names.
        size: `(height, width)` to which every image is resized.
        channels: 1, 3 or 4.
        **batching: See `tfdist.data.pipeline`.

    Returns:
        `x` float32 [k, height, width, channels] from 0 to 255, `y` int64 [k].

    Raises:
        DataError: The folder is missing or unreadable, or has no image.
    """
    return _batches(lambda: ImageSamples(ImageFiles.find(path), size, channels), batching)


def text(
    files: FilePatterns,
    vectorize: Callable[[tf.Tensor], Any] | None = None,
    *,
    label_separator: str = "\t",
    **batching: Unpack[BatchOptions],
) -> Batches:
    """Batches of the lines of text files: an integer label, a separator, the text.

    Args:
        files: A path, a pattern, or a list of these. Empty lines are left out.
        vectorize: From a batch of texts, strings [k], to `x` [k, ...], in TensorFlow's operations; None for the texts.
        label_separator: What stands between label and text.
        **batching: See `tfdist.data.pipeline`.

    Raises:
        DataError: A file is missing or unreadable, or there is no line.
    """
    return _batches(lambda: text_source(files, vectorize, label_separator), batching)


def _batches(open_source: Callable[[], SampleSource], batching: BatchOptions) -> Batches:
    return open_and_build(open_source, **batching).batches
