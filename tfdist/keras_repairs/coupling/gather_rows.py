"""Gathers the rows of all replicas on every replica, for predictions and for metrics of the whole global batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import has_rows, without_stand_in
from tfdist.keras_repairs.base.replica_step import note_gathering, replica_count, replica_id
from tfdist.keras_repairs.base.tensor_attributes import changed
from tfdist.runtime.collectives.wire.wire_dtypes import from_gathered, to_gathered
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport import replica_sums
from tfdist.runtime.transport.compiled_sums import CannotBeCompiled, CompiledSums
from tfdist.runtime.transport.emulated_replicas import emulated_replica
from tfdist.runtime.workers import worker_count

_NAMED_IN_ORDER = 10
"""So many workers, from 0 on, have names of one digit."""


def all_rows(value: Any) -> Any:
    """Gathers a structure of tensors along their first dimension, in the order of the replicas.

    Call it in the context of a replica, on all replicas, with tensors of the same rank, dtype and trailing shape. How
    many rows a replica has may differ, and may be 0; where it has no sample in the current step, its rows are left out.

    Args:
        value: A structure of dense and ragged tensors; None and scalars in it stay as they are. What Keras
            finds behind a tensor, its mask and logits, is gathered, too.

    Returns:
        The structure with the rows of all replicas, the same on every replica.

    Raises:
        UnsupportedError: A tensor is sparse, or its dtype cannot be sent.
    """
    return tf.nest.map_structure(_all_rows, without_stand_in(value))


def _all_rows(value: Any) -> Any:
    if isinstance(value, tf.SparseTensor):
        raise UnsupportedError(
            "Sparse tensors cannot be gathered from several replicas. Convert the tensor with tf.sparse.to_dense(...) "
            "in the model, or run on one device (`tfdist train` without --workers, --nproc and --logical-devices)."
        )
    if isinstance(value, tf.RaggedTensor):
        lengths = [dense_rows(level) for level in value.nested_row_lengths()]
        return tf.RaggedTensor.from_nested_row_lengths(dense_rows(value.flat_values), lengths, validate=False)
    if not has_rows(value):
        return value
    return changed(value, dense_rows)


def dense_rows(tensor: tf.Tensor) -> tf.Tensor:
    """Gathers every row of one dense tensor; otherwise as `all_rows`."""
    note_gathering()
    sums = settings_of(tf.distribute.get_strategy()).sums
    if tensor.dtype == tf.string:
        if isinstance(sums, CompiledSums):
            raise CannotBeCompiled("texts are gathered from all replicas")
        return _text_rows(tensor)
    dtype = tensor.dtype
    if not (dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool):
        raise UnsupportedError(
            f"Tensors of dtype {dtype.name} cannot be gathered from several replicas. Expected numbers, bools or "
            "texts. Convert them in the model, or run on one device (`tfdist train` without --workers, --nproc and "
            "--logical-devices)."
        )
    # On the CPU an argument of a tf.function has no device yet, which all_gather does not take; a copy has.
    sent = tf.identity(to_gathered(tensor))
    emulated = emulated_replica()
    if emulated is not None:
        return from_gathered(tf.concat(emulated.gathered(sent), axis=0), dtype)
    gathered = sums.gather(sent) if isinstance(sums, CompiledSums) else _by_tensorflow(sent)
    rows = from_gathered(gathered, dtype)
    shape = [None, *tensor.shape[1:]]
    if tf.executing_eagerly():
        return tf.ensure_shape(rows, shape)
    # The number of rows must not be known in a graph: by that it is told what has the rows of the batch. Where each
    # device knows its own number TensorFlow adds them up; between workers it loses the shape, as they pad what they
    # send.
    return tf.compat.v1.placeholder_with_default(rows, shape)


def _by_tensorflow(tensor: tf.Tensor) -> tf.Tensor:
    """The rows of all replicas in their order. TensorFlow gathers in the order of the workers' names, 10 before 2."""
    context = tf.distribute.get_replica_context()
    rows = context.all_gather(tensor, axis=0)
    if replica_count() <= _NAMED_IN_ORDER:
        return rows
    replicas = context.all_gather(tf.fill(tf.shape(tensor)[:1], tf.cast(replica_id(), tf.int32)), axis=0)
    return tf.gather(rows, tf.argsort(replicas, stable=True))


def _text_rows(texts: tf.Tensor) -> tf.Tensor:
    """`dense_rows` of texts, as the length of each and all their bytes, one after another."""
    flat = tf.reshape(texts, [-1])
    joined = tf.io.decode_raw(tf.strings.reduce_join(flat), tf.uint8)
    lengths, letters = dense_rows(tf.strings.length(flat)), dense_rows(joined)
    # TensorFlow has no operation from bytes to a text, but one that joins letters.
    table = tf.constant([bytes([letter]) for letter in range(256)])
    split = tf.RaggedTensor.from_row_lengths(tf.gather(table, tf.cast(letters, tf.int32)), lengths, validate=False)
    trailing = texts.shape[1:] if texts.shape[1:].is_fully_defined() else tf.unstack(tf.shape(texts))[1:]
    return tf.reshape(tf.strings.reduce_join(split, axis=1), [-1, *trailing])


def sum_of_any_size(tensor: tf.Tensor) -> tf.Tensor:
    """The sum of a tensor over the replicas, where its size, the same on all of them, may differ from step to step.

    Between workers it is gathered: a collective that sums keeps the size that it had first.
    """
    if worker_count(tf.distribute.get_strategy()) == 1:
        return replica_sums.sum_over_replicas([tensor])[0]
    return tf.reduce_sum(dense_rows(tensor[tf.newaxis]), axis=0)
