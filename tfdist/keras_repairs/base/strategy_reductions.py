"""Sums and gathers of the strategy itself: `strategy.reduce`, a replica's `all_reduce`, metrics, `strategy.gather`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_utils, values

from tfdist.keras_repairs.base.replica_step import is_of_own_loop
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.transport.emulated_replicas import Diverged, emulated_replica
from tfdist.runtime.transport.shared_memory.shared_memory_sums import SharedMemorySums

Function = Callable[..., Any]


def all_reduce(original: Function) -> Function:
    """Repairs `CollectiveAllReduce._all_reduce`, which sums over the network also where all workers share memory."""

    @functools.wraps(original)
    def repaired(operations: Any, reduce_op: Any, value: Any, replica_id: int, options: Any) -> Any:
        sums = settings_of(tf.distribute.get_strategy()).sums
        if not isinstance(sums, SharedMemorySums):
            return original(operations, reduce_op, value, replica_id, options)
        tensors = [_tensor(leaf) for leaf in tf.nest.flatten(value)]
        if not all(sums.takes(tensor) for tensor in tensors):
            return original(operations, reduce_op, value, replica_id, options)
        totals = sums.sum(tensors)
        if reduce_op == tf.distribute.ReduceOp.MEAN:
            totals = [_divided(total, operations._group_size) for total in totals]
        return tf.nest.pack_sequence_as(value, totals)

    return repaired


def all_reduce_per_replica_values(original: Function) -> Function:
    """Repairs `CollectiveAllReduce._all_reduce_per_replica_values`, which starts threads for each eager sum.

    A worker with one device needs none. Python's pool of threads needs room in /dev/shm, where a container may have
    none.
    """

    @functools.wraps(original)
    def repaired(operations: Any, reduce_op: Any, per_replica_values: Sequence[Any], options: Any) -> list[Any]:
        if len(operations._devices) > 1 or not tf.executing_eagerly():
            result: list[Any] = original(operations, reduce_op, per_replica_values, options)
            return result
        with operations._lock:
            totals = operations._all_reduce(reduce_op, [each.values[0] for each in per_replica_values], 0, options)
        return [distribute_utils.regroup((total,), wrap_class=values.Mirrored) for total in totals]

    return repaired


def all_gather(original: Function) -> Function:
    """Repairs `CollectiveReplicaLauncher._all_gather`, where a tensor without elements ends the process by SIGSEGV.

    Texts that are all empty are sent as no bytes, ragged rows without values as no numbers. Such a tensor is sent with
    one element in each dimension that has none.
    """

    @functools.wraps(original)
    def repaired(launcher: Any, input_tensor: Any, options: Any) -> tf.Tensor:
        tensor = tf.convert_to_tensor(input_tensor)
        if tensor.shape.num_elements():
            return original(launcher, tensor, options)
        with tf.device(launcher._device):
            shape = tf.shape(tensor)
            added = tf.cast(shape == 0, tf.int32)
            padded = tf.pad(tensor, tf.stack([tf.zeros_like(added), added], axis=1))
            size = tf.concat([shape[:1] * launcher._group_size, shape[1:]], axis=0)
            return tf.slice(original(launcher, padded, options), tf.zeros_like(size), size)

    return repaired


def context_all_reduce(original: Function) -> Function:
    """Repairs `ReplicaContext.all_reduce`: emulated replicas exchange what real ones would."""

    @functools.wraps(original)
    def repaired(context: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
        emulated = emulated_replica()
        if emulated is None:
            return original(context, reduce_op, value, options)
        is_mean = str(getattr(reduce_op, "value", reduce_op)).upper() == "MEAN"

        def reduced(*leaves: Any) -> list[Any]:
            totals = emulated.summed(leaves)
            return [_divided(total, emulated.count) for total in totals] if is_mean else totals

        return _with_gradient(reduced, reduced, value)

    return repaired


def context_all_gather(original: Function) -> Function:
    """Repairs `ReplicaContext.all_gather` likewise."""

    @functools.wraps(original)
    def repaired(context: Any, value: Any, axis: int, options: Any = None) -> Any:
        emulated = emulated_replica()
        if emulated is None:
            return original(context, value, axis, options)
        sizes: list[list[int]] = []

        def gathered(*leaves: Any) -> list[Any]:
            parts = [emulated.gathered(leaf) for leaf in leaves]
            sizes.extend([int(tf.shape(part)[axis]) for part in of_leaf] for of_leaf in parts)
            return [tf.concat(of_leaf, axis) for of_leaf in parts]

        def own_part(*gradients: Any) -> list[Any]:
            totals = zip(emulated.summed(gradients), sizes, strict=True)
            return [tf.split(total, of_leaf, axis)[emulated.index] for total, of_leaf in totals]

        return _with_gradient(gathered, own_part, value)

    return repaired


def merge_call(original: Function) -> Function:
    """Repairs `ReplicaContext.merge_call`: what a loop does with the values of all replicas is not tried out."""

    @functools.wraps(original)
    def repaired(context: Any, *args: Any, **kwargs: Any) -> Any:
        if is_of_own_loop() and emulated_replica() is not None:
            raise Diverged("merge_call takes values of replicas that are emulated")
        return original(context, *args, **kwargs)

    return repaired


def _with_gradient(forward: Function, backward: Function, value: Any) -> Any:
    leaves = [_tensor(leaf) for leaf in tf.nest.flatten(value)]
    if any(isinstance(leaf, tf.IndexedSlices) for leaf in leaves):
        return tf.nest.pack_sequence_as(value, forward(*leaves))

    @tf.custom_gradient
    def computed(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Function]:
        return forward(*tensors), backward

    return tf.nest.pack_sequence_as(value, tf.nest.flatten(computed(*leaves)))


def _tensor(value: Any) -> tf.Tensor | tf.IndexedSlices:
    return value if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)


def _divided(total: tf.Tensor | tf.IndexedSlices, count: int) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(total, tf.IndexedSlices):
        return tf.IndexedSlices(total.values / count, total.indices, total.dense_shape)
    return total / count
