"""Transfers: tensors of any dtypes and shapes as calls of an engine's primitives on flat tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.wire.engine import Channel, CollectiveEngine
from tfdist.runtime.collectives.wire.wire_dtypes import (
    HALVES,
    WORD,
    from_bits,
    from_numbers,
    to_bits,
    to_numbers,
)
from tfdist.runtime.tensor_buckets import BUCKET_BYTES


@dataclass(frozen=True)
class Flat:
    """Some tensors of a call as one flat tensor.

    Attributes:
        indices: Which of the tensors they are.
        flat: What an engine gets, of a dtype that it carries.
    """

    indices: tuple[int, ...]
    flat: tf.Tensor


def flats_of(call: Call, tensors: Sequence[tf.Tensor], workers: int, word: int = WORD) -> list[Flat]:
    """Returns what an engine is given for the tensors of a call; those without elements are left out.

    Args:
        call: The call.
        tensors: This worker's.
        workers: How many there are in the group.
        word: See `to_bits`.
    """
    rows = workers if call.is_cut else 1
    return [
        Flat(indices, _to_wire(call, _joined([tensors[index] for index in indices], rows), word))
        for indices in _buckets(tensors)
    ]


def transfer(
    call: Call,
    tensors: Sequence[tf.Tensor],
    workers: tuple[int, ...],
    engine: CollectiveEngine,
    channel_of: Callable[[tf.Tensor], Channel],
    word: int = WORD,
) -> list[tf.Tensor]:
    """Runs a call on its tensors.

    Args:
        call: The call.
        tensors: This worker's; those of the others have the same dtypes and shapes.
        workers: The group's.
        engine: What carries them.
        channel_of: The channel for a flat tensor; called for one after another.
        word: See `to_bits`.

    Returns:
        The result for each tensor.
    """
    results = [
        tf.zeros(call.shape_of_result(list(tensor.shape), len(workers)), tensor.dtype)
        if tensor.shape.num_elements() == 0
        else tensor
        for tensor in tensors
    ]
    flats = flats_of(call, tensors, len(workers), word)
    received = [_run_primitive(call, flat.flat, workers, engine, channel_of(flat.flat)) for flat in flats]
    for flat, result in zip(flats, received, strict=True):
        chosen = [tensors[index] for index in flat.indices]
        for index, part in zip(flat.indices, _separated(call, chosen, result, workers), strict=True):
            results[index] = part
    return results


def _run_primitive(
    call: Call, flat: tf.Tensor, workers: tuple[int, ...], engine: CollectiveEngine, channel: Channel
) -> tf.Tensor:
    match call.primitive:
        case "all_reduce":
            return engine.all_reduce(flat, call.reduction, channel)
        case "reduce_scatter":
            return engine.reduce_scatter(flat, call.reduction, channel)
        case "all_gather":
            return engine.all_gather(flat, channel)
        case "all_to_all":
            return engine.all_to_all(flat, channel)
        case "broadcast":
            assert call.root is not None, "a broadcast has a root"
            return engine.broadcast(flat, workers.index(call.root), channel)


def _buckets(tensors: Sequence[tf.Tensor]) -> list[tuple[int, ...]]:
    """Returns which tensors share a bucket: those of one dtype, up to a size, in the order of their first."""
    buckets: list[list[int]] = []
    open_buckets: dict[tf.DType, tuple[list[int], int]] = {}
    for index, tensor in enumerate(tensors):
        elements = tensor.shape.num_elements()
        if elements == 0:
            continue
        size = BUCKET_BYTES if elements is None else elements * tensor.dtype.size
        bucket, room = open_buckets.get(tensor.dtype, ([], 0))
        if size > room:
            bucket, room = [], BUCKET_BYTES
            buckets.append(bucket)
        bucket.append(index)
        if size < BUCKET_BYTES:
            open_buckets[tensor.dtype] = (bucket, room - size)
    return [tuple(bucket) for bucket in buckets]


def _joined(tensors: Sequence[tf.Tensor], rows: int) -> tf.Tensor:
    tables = [tf.reshape(tensor, [rows, -1]) for tensor in tensors]
    table = tables[0] if len(tables) == 1 else tf.concat(tables, 1)
    if table.shape[1] is not None:
        return table
    # TensorFlow's collectives take no tensor without elements.
    return tf.pad(table, [[0, 0], [0, tf.cast(tf.shape(table)[1] == 0, tf.int32)]])


def _to_wire(call: Call, table: tf.Tensor, word: int) -> tf.Tensor:
    if call.op is None:
        return tf.reshape(to_bits(table, word), [-1])
    values = tf.reshape(table, [-1])
    if call.op == "mean" and values.dtype in HALVES:
        # A sum of numbers whose mean is finite may not be.
        values = tf.cast(values, tf.float32)
    return to_numbers(values, call.reduction)


def _separated(
    call: Call, tensors: Sequence[tf.Tensor], received: tf.Tensor, workers: tuple[int, ...]
) -> list[tf.Tensor]:
    """The results for the tensors that made one flat one."""
    count = len(workers)
    dtype = tensors[0].dtype
    columns = [_columns(tensor, count if call.is_cut else 1) for tensor in tensors]
    rows = count if call.primitive in ("all_gather", "all_to_all") else 1
    total = columns[0] if len(columns) == 1 else sum(columns)
    if call.op is None:
        table = from_bits(tf.reshape(received, [rows, -1]), dtype, total)
    else:
        table = tf.reshape(_from_wire(call, received, dtype, count), [rows, -1])
    if not isinstance(total, int):
        table = table[:, :total]
    if call.kind == "scatter":
        assert call.root is not None, "a scatter has a root"
        place = workers.index(call.root)
        table = table[place : place + 1]
    parts = [table] if len(tensors) == 1 else tf.split(table, columns, 1)
    return [_reshaped(part, call, tensor, count) for part, tensor in zip(parts, tensors, strict=True)]


def _from_wire(call: Call, received: tf.Tensor, dtype: tf.DType, workers: int) -> tf.Tensor:
    if call.op != "mean":
        return from_numbers(received, dtype)
    return from_numbers(received / tf.constant(workers, received.dtype), dtype)


def _columns(tensor: tf.Tensor, rows: int) -> int | tf.Tensor:
    elements = tensor.shape.num_elements()
    return tf.size(tensor) // rows if elements is None else elements // rows


def _reshaped(part: tf.Tensor, call: Call, tensor: tf.Tensor, workers: int) -> tf.Tensor:
    shape = call.shape_of_result(list(tensor.shape), workers)
    if None not in shape:
        return tf.reshape(part, shape)
    sizes = tf.unstack(tf.shape(tensor))
    if call.primitive == "all_gather":
        sizes = [workers, *sizes]
    elif call.is_cut and call.kind != "all_to_all":
        sizes = [sizes[0] // workers, *sizes[1:]]
    return tf.ensure_shape(tf.reshape(part, tf.stack(sizes)), shape)
