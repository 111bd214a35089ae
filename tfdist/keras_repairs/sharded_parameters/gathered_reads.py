"""The full weight where it is read, and its gradient, summed into shards as soon as it is complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.eager import record

from tfdist.keras_repairs.base.replica_step import is_alone
from tfdist.keras_repairs.gradient_sums import weighted
from tfdist.keras_repairs.sharded_parameters.full_reads import FullRead, last_read, note_read
from tfdist.keras_repairs.sharded_parameters.layer_scopes import LayerScope, reading_scope
from tfdist.keras_repairs.sharded_parameters.parameter_shard import Gradient, ParameterShard
from tfdist.keras_repairs.sharded_parameters.second_gathers import gather_again, is_gradient_taken, note_full
from tfdist.keras_repairs.sharded_parameters.tape_calls import current_sums, next_read
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.emulated_replicas import emulated_replica
from tfdist.runtime.transport.shard_groups import memory_of_group


def read(shard: ParameterShard, dtype: tf.DType, stored: tf.Tensor | None = None) -> tf.Tensor:
    """A full weight, in a dtype; all workers read it together.

    A layer that reads a weight twice in one call has the same tensor.

    Args:
        shard: What this worker stores of it.
        dtype: That of the result.
        stored: The value of that, where it was read before; None for what it is now.
    """
    if stored is None and tf.executing_eagerly():
        stored = shard.stored.read_value()
        if not record.should_record_backprop([stored]):
            # Nothing keeps what is read: the next reader puts it together anew.
            return shard.join(tf.cast(stored, dtype))
    scope = reading_scope()
    key = (id(shard), dtype)
    found = None if scope.is_outside else scope.reads.get(key)
    if found is None:
        found = scope.reads[key] = _read_in(scope, shard, dtype, stored)
    return found.full


def is_sent_ahead() -> bool:
    """Returns whether the weights of the next layer are sent while a layer computes: by TensorFlow's collectives on
    CPUs.

    Workers that share memory copy weights by the cores that compute, and do not wait for a network.
    """
    settings = settings_of(tf.distribute.get_strategy())
    return settings.sums is not None and memory_of_group(settings) is None


def _read_in(scope: LayerScope, shard: ParameterShard, dtype: tf.DType, value: tf.Tensor | None) -> FullRead:
    made = _noted(scope, FullRead(shard.join), is_vector=len(shard.full_shape) < 2)
    is_ahead = scope.graph is not None and is_sent_ahead()
    number = next_read()
    around = contextlib.nullcontext() if scope.graph is None else scope.graph.as_default()
    with around, tf.control_dependencies(made.begins_after(is_ahead=is_ahead)):

        @tf.custom_gradient
        def full_of(stored: tf.Tensor) -> tuple[tf.Tensor, Callable[[Gradient], Gradient | None]]:
            def gradient(upstream: Gradient) -> Gradient | None:
                gather_again([made] if scope.is_outside else scope.reads.values(), made, is_ahead=is_ahead)
                if not is_gradient_taken(shard.stored):
                    return None
                sums = current_sums()
                if sums is None:
                    return shard_of_sum(upstream, shard)
                return sums.put_off(shard.stored, number, lambda: shard_of_sum(upstream, shard))

            made.shard = tf.cast(stored, dtype)
            return shard.join(made.shard), gradient

        made.full = full_of(shard.stored.read_value() if value is None else value)
        note_full(made)
    return made


def _noted(scope: LayerScope, read: FullRead, *, is_vector: bool) -> FullRead:
    """The read with what comes before it: the layer's inputs, and who reads the layer's weight before it.

    A vector, such as a bias, waits for no reader: oneDNN makes one operation of a convolution and its bias, which would
    wait for itself.
    """
    read.needs = scope.inputs
    if scope.graph is None:
        return read
    before = next(reversed(scope.reads.values()), None)
    if before is not None and not is_vector:
        read.needs = [*scope.inputs, *before.full.consumers()]
    if not scope.is_outside:
        read.earlier = last_read(scope.graph)
        # Of the first layer a backward pass takes no gradient by its inputs, for which it would read the weight.
        read.is_read_again = before is not None or bool(record.should_record_backprop(scope.inputs))
        note_read(scope.graph, read)
    return read


def shard_of_sum(gradient: Gradient, shard: ParameterShard) -> Gradient:
    """This worker's shard of the sum of a weight's gradients over the workers, in the dtype of the weight."""
    gradient = _cast(gradient, shard.stored.dtype)
    if is_alone() or emulated_replica() is not None:
        # Code that is tried out, whose gradients are looked at and not applied.
        return gradient
    (gradient,) = weighted([gradient])
    return shard.sum_of(gradient)


def _cast(gradient: Gradient, dtype: tf.DType) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(gradient.values, dtype), gradient.indices, gradient.dense_shape)
    return tf.cast(gradient, dtype)
