"""Agreement of eager calls: the workers of a lane say what they call, in a head of few bytes, before values travel."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.runtime.collectives.byte_rows import gather_rows, padded_size
from tfdist.runtime.collectives.contracts import Contract, disagreement
from tfdist.runtime.collectives.wire.engine import CollectiveEngine
from tfdist.runtime.collectives.wire.lanes import Lane
from tfdist.runtime.collectives.wire.placement import ANYWHERE

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
