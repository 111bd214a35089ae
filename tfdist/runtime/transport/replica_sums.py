"""Sums over the replicas inside of a replica's step, for all losses and gradients."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.runtime.collectives.wire.engines import TensorFlowEngine
from tfdist.runtime.strategy_settings import settings_of
from tfdist.runtime.tensor_buckets import by_dtype
from tfdist.runtime.transport.emulated_replicas import emulated_replica
from tfdist.runtime.transport.worker_lane import channel_of


def sum_over_replicas(
    tensors: Sequence[tf.Tensor | tf.IndexedSlices], sent_as: tf.DType | None = None
) -> list[tf.Tensor | tf.IndexedSlices]:
    """The sum of each tensor over all replicas. Call it in the context of a replica, on all of them.

    Sparse tensors stay sparse.

    Args:
        tensors: What is summed.
        sent_as: The dtype in which workers send them over a network; None for their own. The sums have that of the
            tensors.
    """
    emulated = emulated_replica()
    if emulated is not None:
        return _summed_as(sent_as, tensors, emulated.summed)
    context = tf.distribute.get_replica_context()
    sums = settings_of(context.strategy).sums
    taken = [] if sums is None else [i for i, tensor in enumerate(tensors) if sums.takes(tensor)]
    result: list[tf.Tensor | tf.IndexedSlices] = list(tensors)
    if sums is not None and taken:
        for i, total in zip(taken, sums.sum([tensors[i] for i in taken], sent_as), strict=True):
            result[i] = total
    rest = [i for i in range(len(tensors)) if i not in set(taken)]
    if rest:
        for i, total in zip(rest, _summed_as(sent_as, [tensors[i] for i in rest], _sum_by_strategy), strict=True):
            result[i] = total
    return result


def compression() -> tf.DType | None:
    """The dtype in which gradients are sent under the current strategy; None for their own."""
    return settings_of(tf.distribute.get_strategy()).compression


def sum_gradients(gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    """`sum_over_replicas`, compressed where that was asked for, and timed by the worker's meter.

    Compression rounds what a worker sends, by at most 1 part in 256 (bfloat16) or 2048 (float16, between 6e-5 and
    65504: below it loses more, above it becomes infinite), and so each partial sum on the way.
    """
    settings = settings_of(tf.distribute.get_strategy())
    sum_them = functools.partial(sum_over_replicas, sent_as=settings.compression)
    meter = settings.meter_of_sums
    return sum_them(gradients) if meter is None or not gradients else list(meter.timed(gradients, sum_them))


def _sum_by_strategy(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[tf.Tensor | tf.IndexedSlices]:
    context = tf.distribute.get_replica_context()
    result = [_on_device(tensor) for tensor in tensors]
    settings = settings_of(context.strategy)
    # Between workers TensorFlow joins what it is given at once, whatever its dtypes, and sums one by one beside slices.
    for group in [list(range(len(tensors)))] if settings.nccl is None else _alike(tensors):
        is_dense = isinstance(tensors[group[0]], tf.Tensor)
        if settings.between_devices is not None and is_dense and is_in_branch():
            totals = [_sum_in_branch(result[i], settings.between_devices) for i in group]
        else:
            totals = context.all_reduce(tf.distribute.ReduceOp.SUM, [result[i] for i in group])
        for i, total in zip(group, totals, strict=True):
            result[i] = total
    return result


def is_in_branch() -> bool:
    """Returns whether a branch, a loop or a function in a replica's step is traced, which TensorFlow's own sums cannot
    leave."""
    of_step = getattr(threading.current_thread(), "graph", None)
    return of_step is not None and tf.compat.v1.get_default_graph() is not of_step


def _sum_in_branch(tensor: tf.Tensor, engine: TensorFlowEngine) -> tf.Tensor:
    """The sum of a dense tensor over workers that exchange between their devices; all of them take the branch."""
    flat = tf.reshape(tensor, [-1])
    size = flat.shape[0]
    if size == 0:
        return tensor
    channel = channel_of("sum in a branch", flat.dtype, tf.size(flat) if size is None else size)
    return tf.reshape(engine.all_reduce(flat, "sum", channel), tf.shape(tensor))


def _alike(tensors: Sequence[tf.Tensor | tf.IndexedSlices]) -> list[list[int]]:
    """The places of the dense tensors of each dtype, and of each sparse one."""
    dense = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.Tensor)]
    groups = [[dense[place] for place in group] for group in by_dtype([tensors[i] for i in dense])]
    return groups + [[i] for i in range(len(tensors)) if i not in set(dense)]


def _summed_as(
    dtype: tf.DType | None, tensors: Sequence[tf.Tensor | tf.IndexedSlices], sum_them: Callable[..., list[Any]]
) -> list[tf.Tensor | tf.IndexedSlices]:
    """The sums, taken in another dtype where one is given."""
    if dtype is None:
        return sum_them(tensors)
    totals = sum_them([_as(dtype, tensor) for tensor in tensors])
    return [_as(tensor.dtype, total) for tensor, total in zip(tensors, totals, strict=True)]


def _as(dtype: tf.DType, tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    if isinstance(tensor, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(tensor.values, dtype), tensor.indices, tensor.dense_shape)
    return tf.cast(tensor, dtype)


def _on_device(tensor: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """On the CPU an argument of a tf.function has no device yet, which all_reduce does not take; its copy has."""
    return tf.identity(tensor) if isinstance(tensor, tf.Tensor) else tensor
