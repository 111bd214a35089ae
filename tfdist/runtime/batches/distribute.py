"""Feeds batches to the replicas: one dataset a worker, whose elements go to its replicas in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfdist.runtime.batches.dataset_description import description_of
from tfdist.runtime.batches.device_iterators import make_lasting, no_autotune_options
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.workers import local_replicas


class GlobalBatch(NamedTuple):
    """A whole global batch, the same on every replica, each of which cuts out its slice in its step.

    Attributes:
        data: A structure of tensors.
    """

    data: Any


class ReplicaBatch(NamedTuple):
    """A replica's slice of a global batch, as the repaired `fit`, `evaluate` and `predict` pass it to the replica.

    Attributes:
        data: The slice, a structure of tensors; one row of other samples, to stand in, where the slice has no sample.
        samples: Scalar int64 tensor, how many samples the slice has; may be 0.
        first: Scalar int64 tensor, the place of the slice's first row in the global batch.
        total: Scalar int64 tensor, the samples of the global batch.
        counting: Scalar int64 tensor, how many replicas have a sample of it; () where it is known of all batches of the
            data that every replica has one, so that a step need not look.
        largest: Scalar int64 tensor, samples of which an even part is as large as any slice of the epoch so far; ()
            where that is not known.
        remainder: Bools, as many as samples of the global batch are left over where all replicas have equally many:
            that shows in a shape, which is known without a look at a GPU's memory; () where nobody asks.
        whole: A tensor where the data are the whole global batch, of which no replica can be given a slice: its tensors
            have different numbers of rows. () elsewhere.
    """

    data: Any
    samples: tf.Tensor
    first: tf.Tensor
    total: tf.Tensor
    counting: tf.Tensor | tuple[()]
    largest: tf.Tensor | tuple[()]
    remainder: tf.Tensor | tuple[()] = ()
    whole: tf.Tensor | tuple[()] = ()


UNEQUAL_ROWS = (
    "The tensors of a batch have different numbers of rows (the nodes and edges of a graph, say), and those of the "
    "first batch had as many each, so replicas were to get parts of the samples. Expected as many rows in each, or "
    "different ones from the first batch on, which every replica takes whole. Give each sample one element of every "
    "tensor, such as a graph with its edges in a ragged tensor; or run on one device (`tfdist train` without "
    "--workers, --nproc and --logical-devices). Received rows:"
)


def are_of_samples(shapes: Sequence[tf.TensorShape | None]) -> list[bool]:
    """Returns which tensors of a batch have a row for each sample, by their shapes; None is that of what is no tensor.

    Where the batches have any size, one of a fixed size has not: it is a table beside the samples, the same for all.
    """
    have = [shape is not None and shape.rank != 0 for shape in shapes]
    are_open = [shape is not None and shape.rank != 0 and shape[0] is None for shape in shapes]
    return are_open if any(are_open) else have


def remainder_of(total: tf.Tensor | int, replicas: int) -> tf.Tensor:
    """The `ReplicaBatch.remainder` of a global batch of `total` samples."""
    return tf.zeros([total % replicas], tf.bool)


def piece_bounds(samples: tf.Tensor, replicas: int, index: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """`order.batch_split.bounds` on tensors: where the slice of replica `index` begins and ends in a global batch.

    Args:
        samples: Scalar int64 tensor, those of the global batch.
        replicas: How many replicas there are.
        index: A replica's id, an int or a scalar tensor.
    """
    index = tf.cast(index, samples.dtype)
    return -(-index * samples // replicas), -(-(index + 1) * samples // replicas)


def per_replica(
    make: Callable[[Sequence[int]], tf.data.Dataset], strategy: tf.distribute.Strategy
) -> tf.distribute.DistributedDataset:
    """Feeds every replica its own batches.

    Args:
        make: Called once on each worker with the ids of its replicas. Returns a dataset whose consecutive elements are
            the batches of those replicas in turn (step 0 of the first, step 0 of the second, ..., step 1 of the first),
            as many steps on every worker. Batches may differ in size and may be empty.
        strategy: A strategy of more than one replica.

    Returns:
        A distributed dataset that Keras `fit` accepts. Its cardinality counts global steps.
    """
    made = []

    def dataset_of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        made.append(make(local_replicas(strategy)).with_options(no_autotune_options()))
        return made[-1]

    make_lasting()
    distributed = strategy.distribute_datasets_from_function(dataset_of_worker)
    # As every worker has the same number of steps, none needs to ask the others at each step whether they have data
    # left: TensorFlow would spend a blocking collective a step on that. It offers no public switch.
    distributed._enable_get_next_as_optional = False
    # TensorFlow counts the elements of one worker's dataset, Keras shows the figure as the steps of an epoch.
    if distributed.cardinality > 0:
        distributed._cardinality = distributed.cardinality // len(local_replicas(strategy))
    if len(strategy.extended.worker_devices) == 1 and not settings_of(strategy).on_gpus:
        (description_of(distributed).of_only_replica,) = made
    return distributed
