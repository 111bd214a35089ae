"""The value that a log of the user's own step has for the global batch, where it is no result of a metric."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.replica_step import ReplicaStep, UnclearSizeError, this_step
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up
from tfdist.keras_repairs.forward.log_origins import is_number_of_samples, origin_of
from tfdist.keras_repairs.random_numbers.batch_size import BatchSize
from tfdist.runtime.transport import replica_sums

_INSTEAD = (
    "Log tfdist.summed(value) where it is a sum over the samples, such as a count; keras.ops.shape(x)[0] for their "
    "number; keras.ops.cast(value, 'float32') where it is a mean over them; or tfdist.gathered(function)(tensors), "
    "which computes it from the samples of all replicas."
)


def value_of_global_batch(name: str, value: Any, data: Any, model: keras.Model) -> Any:
    """The log for the global batch; all replicas call this together.

    A scalar or an array of a fixed shape is taken for a mean over the samples, a tensor with a row for each sample is
    gathered. What is the same on every replica stays as it is.

    Args:
        name: Of the log.
        value: What the step of this replica logs.
        data: What the step was given.
        model: The model.

    Returns:
        A tensor of the same dtype, or `value` where every replica logs the same.

    Raises:
        UnsupportedError: It cannot be known what the log is for the global batch.
    """
    step = this_step()
    if isinstance(value, keras.Variable):
        own = tf.convert_to_tensor(value)
        return _sum(own) if adds_up(value) else own
    if isinstance(value, tf.Variable | tf.distribute.DistributedValues):
        return tf.convert_to_tensor(value)
    if isinstance(value, bool | int | float | np.generic):
        return _number(name, value, step)
    if not isinstance(value, tf.Tensor | tf.RaggedTensor | tf.SparseTensor):
        return value
    if any(value is tensor for tensor in step.noted.shared):
        return value
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        return all_rows(value)
    if tf.executing_eagerly():
        return _eager(name, value, step)
    return _traced(name, value, data, model)


def part_of_metric(name: str, metric: str) -> UnsupportedError:
    """The error for the log `name`, which a step computes from what a replica has of the metric `metric`."""
    return UnsupportedError(
        f"The log {name!r} of a step of your own is computed from the variables of the metric {metric!r}, which the "
        "step reads, and which each replica has for its own samples. Compute it from the metric's result()."
    )


def _number(name: str, value: Any, step: ReplicaStep) -> Any:
    """A number of Python's: where a step is traced every replica has the same, unless it is a size of the batch."""
    if isinstance(value, BatchSize) and step.share.static_rows:
        return step.share.total * (int(value) // step.share.static_rows)
    if isinstance(value, float | np.floating):
        # TensorFlow makes it a float32 on one replica, too.
        return tf.cast(_mean(tf.constant(value, tf.float64), step), tf.float32) if tf.executing_eagerly() else value
    if tf.executing_eagerly() or value == step.share.static_rows:
        raise _unknown(name, f"the number {value!r}, which may be that of a replica's own samples")
    return value


def _eager(name: str, value: tf.Tensor, step: ReplicaStep) -> tf.Tensor:
    if value.shape.rank == 0 and value.dtype.is_floating:
        return _mean(value, step)
    # Whether its first dimension is that of the samples cannot be decided by its size: replicas have different numbers
    # of samples, and would decide differently.
    raise _unknown(name, f"{_described(value)}, in a step that runs eagerly")


def _traced(name: str, value: tf.Tensor, data: Any, model: keras.Model) -> tf.Tensor:
    step = this_step()
    origin = origin_of(value, step, model.metrics)
    if origin.metric is not None:
        raise part_of_metric(name, origin.metric)
    if origin.is_shared:
        return value
    if is_number_of_samples(value, data):
        return tf.cast(step.share.total, value.dtype)
    if value.shape.rank and value.shape[0] is None:
        return all_rows(value)
    # What a tensor has of the samples can be seen in a trace for batches of any size.
    kind = UnsupportedError if step.share.static_rows is None else UnclearSizeError
    if value.shape.rank is None or not value.dtype.is_floating:
        raise _unknown(name, _described(value), kind)
    if value.shape.rank > 0 and value.shape[0] == step.share.static_rows:
        raise _unknown(name, f"{_described(value)}, with as many rows as a replica has samples", kind)
    return _mean(value, step)


def _mean(value: tf.Tensor, step: ReplicaStep) -> tf.Tensor:
    # The share of the samples would be too coarse in 16 bits.
    wide = tf.cast(value, tf.float32) if value.dtype.size < 4 else value
    return tf.cast(_sum(step.share.summand_of_mean(wide)), value.dtype)


def _sum(value: tf.Tensor) -> tf.Tensor:
    return replica_sums.sum_over_replicas([value])[0]


def _described(value: tf.Tensor) -> str:
    return f"a tensor of shape {value.shape} and dtype {value.dtype.name}"


def _unknown(name: str, received: str, kind: type[UnsupportedError] = UnsupportedError) -> UnsupportedError:
    return kind(
        f"The log {name!r} of a step of your own is {received}: it cannot be known what it is for the samples of all "
        f"replicas. Expected the result of a metric, a mean over the samples, or a value that is the same on every "
        f"replica. {_INSTEAD}"
    )
