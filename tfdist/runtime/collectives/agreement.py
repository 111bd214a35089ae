"""Agreement of eager calls: the workers of a lane say what they call, in a head of few bytes, before values travel.

It runs with every call and not while the function is traced: workers trace at different times, and not all of them
equally often.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.contracts import Contract, disagreement, shown, without_shapes
from tfdist.runtime.collectives.traced_progress import TracedProgress
from tfdist.runtime.collectives.wire.engine import CollectiveEngine
from tfdist.runtime.collectives.wire.groups import Lane
from tfdist.runtime.collectives.wire.placement import ANYWHERE

_LEAST_STEP = 256


def padded_size(size: int) -> int:
    """The bytes that are sent for `size` of them: up to a quarter more.

    TensorFlow keeps memory for every size of an eager collective.
    """
    step = max(_LEAST_STEP, 1 << max(size.bit_length() - 3, 0))
    return -(-size // step) * step


def gather_rows(content: bytes, size: int, lane: Lane, engine: CollectiveEngine) -> list[bytes]:
    """Returns what all workers say, each padded with zeros to `size`, a multiple of 4. All call it with one `size`."""
    own = np.frombuffer(content.ljust(size, b"\0"), np.int32)
    said = engine.all_gather(tf.constant(own), lane.eager_channel(("rows", size))).numpy().tobytes()
    return [said[start : start + size] for start in range(0, len(said), size)]


DISAGREEMENT = "Workers call the same collectives in the same order"
"""The beginning of the assertion's text."""

_TEXT_BYTES = 240
_SUMS = 2
_PRIME = (1 << 31) - 1
_FACTOR = 1_000_003


def agree_in_graph(
    contract: Contract,
    tensors: Sequence[tf.Tensor],
    parts: Any,
    lane: Lane,
    engine: CollectiveEngine,
    progress: TracedProgress | None = None,
) -> tf.Tensor:
    """A scalar after which all workers call the same; where they do not, it ends the function on all of them.

    Args:
        contract: This worker's call.
        tensors: Its values.
        parts: How they are to be sent, which depends on the shapes that are known; of texts and numbers.
        lane: Its workers.
        engine: What carries the heads.
        progress: Counts the calls; None where nobody watches.
    """
    call = zlib.crc32(json.dumps([contract.call, without_shapes(contract.values), parts]).encode())
    text = shown(contract).encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")
    static = tf.constant(np.frombuffer(call.to_bytes(4, "little") + text, np.int32))
    own = tf.concat([tf.reshape(_sum_of_shapes(tensors), [1]), static], 0)
    heads = tf.reshape(engine.all_gather(own, lane.traced_channel("head", 0), progress), [len(lane.workers), -1])
    agreed = tf.reduce_all(heads[:, :_SUMS] == heads[:1, :_SUMS])
    return tf.cond(agreed, lambda: tf.constant(True), lambda: _fail(heads, lane.workers))


def check_cuts_in_graph(call: Call, tensors: Sequence[tf.Tensor], agreed: tf.Tensor, workers: int) -> list[tf.Tensor]:
    """Scalars after which a call can cut its values, whose first axes may not be known while a function is traced.

    Where it cannot, the function ends on all workers, whose shapes are the same.

    Args:
        call: The call.
        tensors: Its values.
        agreed: After which all workers have said what they call.
        workers: How many there are.
    """
    if not call.is_cut:
        return []
    with tf.control_dependencies([agreed]), tf.device("CPU:0"):
        return [_check_cut(call, tf.shape(tensor), workers) for tensor in tensors if tensor.shape[0] is None]


def _check_cut(call: Call, shape: tf.Tensor, workers: int) -> tf.Tensor:
    def fail() -> tf.Tensor:
        said = tf.strings.format(call.uncut("{}", workers), shape)
        with tf.control_dependencies([tf.debugging.Assert(False, [said])]):
            return tf.constant(False)

    return tf.cond(shape[0] % workers == 0, lambda: tf.constant(True), fail)


def _sum_of_shapes(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """A checksum, int32, of the shapes that tensors have when the function runs."""
    if all(tensor.shape.is_fully_defined() for tensor in tensors):
        total = 0
        for tensor in tensors:
            for size in (len(tensor.shape), *tensor.shape):
                total = (total * _FACTOR + size + 1) % _PRIME
        return tf.constant(total, tf.int32)
    moving = tf.constant(0, tf.int64)
    for tensor in tensors:
        for size in (len(tensor.shape), *tf.unstack(tf.shape(tensor, tf.int64))):
            moving = (moving * _FACTOR + tf.cast(size, tf.int64) + 1) % _PRIME
    return tf.cast(moving, tf.int32)


def _fail(heads: tf.Tensor, workers: Sequence[int]) -> tf.Tensor:
    """The assertion that fails, with what each worker has said."""
    letters = tf.reshape(tf.bitcast(heads[:, _SUMS:], tf.uint8), [len(workers), -1])
    texts = tf.strings.regex_replace(tf.strings.unicode_encode(tf.cast(letters, tf.int32), "UTF-8"), "\\x00+$", "")
    said: list[Any] = [f"{DISAGREEMENT}, with values of one structure, shape and dtype. Received:"]
    for worker, text in zip(workers, tf.unstack(texts), strict=True):
        said += [f"on worker {worker}:", text]
    said += ["See that all workers make the same calls; where shapes have None, give the function an input_signature."]
    with tf.control_dependencies([tf.debugging.Assert(False, said, summarize=1)]):
        return tf.constant(False)


_HEAD = struct.Struct("<IIIIq")
_HEAD_BYTES = 512
ROOM = _HEAD_BYTES - _HEAD.size
"""Bytes of values that travel in the head itself."""


@dataclass(frozen=True)
class _Head:
    """Attributes:
    call: The checksum of the call.
    values: That of the values' description; 0 for a worker that gives none.
    text: The size of the contract.
    placement: Which values can go from device to device; see `wire.placement`.
    content: The size of the values.
    """

    call: int
    values: int
    text: int
    placement: int
    content: int


@dataclass(frozen=True)
class Meeting:
    """The agreement of the workers of a lane.

    Attributes:
        contracts: Those of all workers; None where all give values, which are then described alike.
        contents: The bytes of each worker's values where these fit into heads; None where they do not.
        sizes: How many bytes each worker gives.
        placements: What each worker tells of where its values lie; see `wire.placement`.
    """

    contracts: tuple[Contract, ...] | None
    contents: tuple[bytes, ...] | None
    sizes: tuple[int, ...]
    placements: tuple[int, ...]


def meet(
    contract: Contract, content: bytes | int, lane: Lane, engine: CollectiveEngine, placement: int = ANYWHERE
) -> Meeting:
    """Says what this worker calls, and hears what the others do.

    Args:
        contract: Its call.
        content: The bytes of its values, or how many they are where they do not fit.
        lane: Its workers.
        engine: What carries the heads.
        placement: Which of its values can go from device to device.

    Raises:
        UsageError: Others call something else, or with values of another structure, dtype or shape.
    """
    size, start = (content, b"") if isinstance(content, int) else (len(content), content)
    text = contract.text
    own = _HEAD.pack(contract.call_sum, contract.values_sum, len(text), placement, size) + start[:ROOM]
    rows = gather_rows(own, _HEAD_BYTES, lane, engine)
    heads = [_Head(*_HEAD.unpack_from(row)) for row in rows]
    contracts = None
    agreed = _agree(heads)
    if not agreed or any(head.values == 0 for head in heads) and any(head.values for head in heads):
        texts = gather_rows(text, padded_size(max(head.text for head in heads)), lane, engine)
        contracts = tuple(Contract.parse(said[: head.text]) for said, head in zip(texts, heads, strict=True))
        if not agreed:
            raise disagreement(dict(zip(lane.workers, contracts, strict=True)))
    sizes = tuple(head.content for head in heads)
    contents = None
    if max(sizes) <= ROOM:
        contents = tuple(row[_HEAD.size : _HEAD.size + size] for row, size in zip(rows, sizes, strict=True))
    return Meeting(contracts, contents, sizes, tuple(head.placement for head in heads))


def _agree(heads: Sequence[_Head]) -> bool:
    return len({head.call for head in heads}) == 1 and len({head.values for head in heads if head.values}) <= 1
