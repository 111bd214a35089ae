"""From a config's `data.train` or `data.validation` section to batches."""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from tfdist.config import data_sections as sections
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.datasets import npz_source, tfrecord_source
from tfdist.data.formats.generator_samples import GeneratorSamples
from tfdist.data.formats.image_features import ImageFeature
from tfdist.data.formats.tfrecord_samples import Feature
from tfdist.data.pipeline import OpenedDataset, open_and_build
from tfdist.data.sample_source import CsvSamples, ImageSamples, SampleSource, TextSamples
from tfdist.order.position import START, Position


def from_config(
    config: sections.SourceConfig,
    batch_size: int,
    seed: int | None = None,
    strategy: tf.distribute.Strategy | None = None,
    key: str = "data.train",
    begin: Position = START,
) -> OpenedDataset:
    """Opens what a section describes. All workers call it together.

    Args:
        config: The section.
        batch_size: Samples of a step over all replicas.
        seed: By default the run's.
        strategy: By default the current one.
        key: The section's dotted key, for the errors.
        begin: Where the training goes on.

    Raises:
        ConfigError: A dotted path does not import or names no function.
        DataError: The data is missing, damaged or empty, on whichever worker; or it differs between the workers.
    """
    return open_and_build(
        partial(_source, config, key),
        sharding=config.sharding,
        batch_size=batch_size,
        shuffle=config.shuffle,
        seed=seed,
        strategy=strategy,
        begin=begin,
        augment=resolve_callable(config.augment, f"{key}.augment") if config.augment else None,
        on_nan=config.on_nan,
        classes=config.classes,
    )


def _source(config: sections.SourceConfig, key: str) -> SampleSource:
    match config:
        case sections.NpzSource():
            return npz_source(config.path, config.split)
        case sections.TfrecordSource():
            parse = resolve_callable(config.parse, f"{key}.parse") if config.parse else None
            features = (
                {name: _feature(feature) for name, feature in config.features.items()} if config.features else None
            )
            return tfrecord_source(
                config.files,
                parse,
                features,
                config.label,
                config.on_corrupt,
                shuffle_buffer=config.shuffle_buffer,
                interleave=config.interleave,
            )
        case sections.CsvSource():
            return CsvSamples(config.files, config.label, config.columns)
        case sections.ImagesSource():
            return ImageSamples(config.path, config.size, config.channels)
        case sections.TextSource():
            vectorize = resolve_callable(config.vectorize, f"{key}.vectorize") if config.vectorize else None
            return TextSamples(config.files, vectorize, config.label_separator)
        case sections.GeneratorSource():
            function = resolve_callable(config.function, f"{key}.function")
            return GeneratorSamples(
                function, samples=config.samples, lanes=config.lanes, shuffle_buffer=config.shuffle_buffer
            )
    raise TypeError(f"Expected the section of a format that data/ reads. Received: {type(config).__name__}")


def _feature(config: sections.FeatureConfig) -> Feature:
    if config.dtype == "image":
        return ImageFeature(*config.shape)
    return tf.io.FixedLenFeature(tuple(config.shape), tf.as_dtype(config.dtype))
