"""Batches of what a config's `data.train` or `data.validation` section describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import tensorflow as tf

from tfdist.config.data_sections import SourceConfig
from tfdist.config.dotted_path import resolve_callable
from tfdist.data.format_registry import open_source
from tfdist.data.ops.companions import Companion
from tfdist.data.pipeline import OpenedDataset, open_and_build
from tfdist.data.sample_source import SampleSource
from tfdist.order.position import START, Position


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
