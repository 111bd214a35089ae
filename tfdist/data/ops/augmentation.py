"""Random augmentation of samples that come in batches, from seeds that do not depend on which worker reads them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist.data.ops.sample_batches import Augmentation, parallel_parses


def augmented(batches: tf.data.Dataset, largest: int, augmentation: Augmentation) -> tf.data.Dataset:
    """Augments the samples of all batches in parallel, in order.

    As `Dataset.batch` makes batches of one size only, a smaller one is filled up by repeating a sample, an empty one
    with zeros, and cut after the augmentation.

    Args:
        batches: Structures of tensors, each [k, ...]; k may change and may be 0.
        largest: The largest k.
        augmentation: The change of each sample.
    """
    size = max(largest, 1)

    def fill(batch: Any, seeds: tf.Tensor) -> tuple[tf.Tensor, Any]:
        count = tf.shape(seeds)[0]
        places = tf.range(size)
        places = tf.where(places < count, places, 0)
        filled = tf.nest.map_structure(lambda rows: tf.gather(_with_zeros(rows), places), (batch, seeds))
        return tf.fill([size], count), filled

    samples = tf.data.Dataset.zip(batches, augmentation.seeds).map(fill).unbatch()
    changed = samples.map(
        lambda count, sample: (count, augmentation.augment(*sample)), num_parallel_calls=parallel_parses()
    )
    return changed.batch(size, drop_remainder=True).map(_cut)


def _with_zeros(rows: tf.Tensor) -> tf.Tensor:
    """The rows with one more of zeros or empty strings, with which an empty batch is filled."""
    return tf.concat([rows, tf.zeros(tf.concat([[1], tf.shape(rows)[1:]], 0), rows.dtype)], axis=0)


def _cut(counts: tf.Tensor, samples: Any) -> Any:
    return tf.nest.map_structure(lambda rows: rows[: counts[0]], samples)
