"""Makes what replicas write in a step that of the global batch: means over the samples, and rows of all."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.context_variables import changing
from tfdist.keras_repairs.base.replica_step import REPLICA_SCOPE, UnclearSizeError, current_step, is_alone, this_step
from tfdist.keras_repairs.coupling.gather_rows import all_rows
from tfdist.keras_repairs.forward.global_batch_metrics import adds_up
from tfdist.keras_repairs.forward.log_origins import is_number_of_samples, origin_of
from tfdist.keras_repairs.random_numbers.draw_sizes import BatchSize
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.workers import local_replicas


class Where(enum.Enum):
    """The place of what is written."""

    OUTSIDE = "a file, a terminal: the chief's first replica writes"
    IN_PROCESS = "an object of the process, which the script of each worker may read: its first replica writes"


def of_all() -> contextlib.AbstractContextManager[None]:
    """The code inside writes what is that of the global batch on every replica."""
    return changing(REPLICA_SCOPE, writes_of_all=True)


@contextlib.contextmanager
def writing_nothing(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Steps inside are made beside the training: they compute what they do, and write nothing."""
    # Replicas are threads, to which no context is handed down.
    settings_of(strategy).writes = False
    try:
        yield
    finally:
        settings_of(strategy).writes = True


def has_part() -> bool:
    """Returns whether the code that runs writes what a replica has of its part of the global batch."""
    return current_step() is not None and not REPLICA_SCOPE.get().writes_of_all


def writes(where: Where) -> bool:
    """Returns whether the replica that runs the code is the one that writes what is of the global batch."""
    if current_step() is None and not is_alone():
        return True
    if not settings_of(tf.distribute.get_strategy()).writes:
        return False
    context = tf.distribute.get_replica_context()
    replica = None if context is None else tf.get_static_value(context.replica_id_in_sync_group)
    if replica is None:
        return True
    first = 0 if where is Where.OUTSIDE else local_replicas(tf.distribute.get_strategy()).start
    return int(replica) == first


def nothing_written() -> Any:
    """Returns what an operation without a result gives, where it does not write."""
    return None if tf.executing_eagerly() else tf.no_op()


_INSTEAD = (
    "One device writes what it computes of the global batch, once. Expected a value that is the same on every replica, "
    "a row for each sample, or a scalar that is a mean over the samples: these are written for the global batch. Put "
    "what computes and writes anything else into a function and call tfdist.gathered(function)(tensors), which has the "
    "rows of all replicas and writes once; or run on one device."
)


def of_global_batch(what: str, value: Any) -> Any:
    """Returns what one device would write; all replicas call this together.

    A scalar is taken for a mean over the samples, as a trial of the step has seen that it is.

    Args:
        what: By what it is written, as the user calls it.
        value: What this replica has to write.

    Raises:
        UnsupportedError: It cannot be known what it is for the global batch.
    """
    step = this_step()
    if isinstance(value, BatchSize) and step.share.static_rows:
        return step.share.total * (int(value) // step.share.static_rows)
    if isinstance(value, keras.Variable):
        own = tf.convert_to_tensor(value)
        return _sum(own) if adds_up(value) else own
    if not isinstance(value, tf.Tensor | tf.RaggedTensor | tf.SparseTensor) or value.dtype == tf.resource:
        return value
    if any(value is tensor for tensor in step.noted.shared):
        return value
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor):
        return all_rows(value)
    return _of_tensor(what, value)


def _of_tensor(what: str, value: tf.Tensor) -> tf.Tensor:
    step = this_step()
    if not tf.executing_eagerly():
        if hasattr(value, "numpy") or origin_of(value, step, ()).is_shared:
            return value
        if is_number_of_samples(value, step.data):
            return tf.cast(step.share.total, value.dtype)
        if value.shape.rank and value.shape[0] is None:
            return all_rows(value)
    if value.shape.rank == 0 and value.dtype.is_floating:
        # The share of the samples would be too coarse in 16 bits.
        wide = tf.cast(value, tf.float32) if value.dtype.size < 4 else value
        return tf.cast(_sum(step.share.summand_of_mean(wide)), value.dtype)
    raise _part_of_batch(what, value)


def _part_of_batch(what: str, value: tf.Tensor) -> UnsupportedError:
    # What a tensor has of the samples can be seen in a trace for batches of any size.
    in_any_size = tf.executing_eagerly() or this_step().share.static_rows is None
    kind = UnsupportedError if in_any_size else UnclearSizeError
    eagerly = ", in a step that runs eagerly" if tf.executing_eagerly() else ""
    return kind(
        f"A step of several replicas writes by {what} a tensor of shape {value.shape} and dtype {value.dtype.name}"
        f"{eagerly}, which each replica computes of its own samples. {_INSTEAD}"
    )


def _sum(value: tf.Tensor) -> tf.Tensor:
    return replica_sums.sum_over_replicas([value])[0]
