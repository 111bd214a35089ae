"""CRC-32C (Castagnoli), masked as TFRecord files store it: by google-crc32c where it is installed, else with numpy.

google-crc32c (the extra `records`) has the processor's own instruction compute it. With numpy it takes some 10 ns a
byte, a hundred times as long.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = np.uint32(0x82F63B78)
_MASK_DELTA = 0xA282EAD8
_BLOCK = 1024


def masked_crc32c(data: bytes) -> int:
    """Returns the masked CRC of `data`, as TFRecord stores it after a record."""
    value = library_value()
    return _mask(_crc32c(data) if value is None else value(data))


@cache
def library_value() -> Callable[[bytes | NDArray[np.uint8]], int] | None:
    """The function of google-crc32c; None where it is not installed, or would itself compute in Python."""
    try:
        library = importlib.import_module("google_crc32c")
    except ImportError:
        return None
    return library.value if library.implementation == "c" else None


def _crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for start in range(0, len(data), _BLOCK):
        block = np.frombuffer(data, np.uint8, min(_BLOCK, len(data) - start), start)
        state = _advance(state, block)
    return state ^ 0xFFFFFFFF


def masked_crc32c_of_each(
    data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Returns the masked CRCs of the records that lie in `data`, uint32 [k].

    Args:
        data: Whatever holds them.
        starts: Where each begins, [k].
        sizes: In bytes, [k].
    """
    spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    value = library_value()
    if value is None:
        return _of_each([data[start:stop] for start, stop in spans])
    whole = np.frombuffer(data, np.uint8)  # whose slices copy nothing, and which the library takes as it does bytes
    return _mask_all(np.array([value(whole[start:stop]) for start, stop in spans], np.uint32))


def _of_each(records: Sequence[bytes]) -> NDArray[np.uint32]:
    """Small records are computed together: one by one, calling numpy would take longer than the work."""
    masked = np.empty(len(records), np.uint32)
    lengths = np.array([len(record) for record in records], np.int64)
    together = (lengths >= 4) & (lengths <= _BLOCK)
    if together.any():
        small = [record for record, yes in zip(records, together.tolist(), strict=True) if yes]
        masked[together] = _of_small(b"".join(small), lengths[together])
    for place in np.flatnonzero(~together).tolist():
        masked[place] = _mask(_crc32c(records[place]))
    return masked


def masked_crc32c_of_lengths(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Returns the masked CRC of each of `lengths` as 8 little-endian bytes, uint32 of the same shape [n]."""
    if not len(lengths):
        return np.empty(0, np.uint32)
    return _of_small(lengths.astype("<u8").tobytes(), np.full(len(lengths), 8, np.int64))


def _of_small(joined: bytes, lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The masked CRCs of records of 4 to _BLOCK bytes that stand one after another in `joined`."""
    data = np.frombuffer(joined, np.uint8).copy()
    ends = np.cumsum(lengths)
    starts = ends - lengths
    data[starts[:, np.newaxis] + np.arange(4)] ^= np.uint8(0xFF)
    followed_by = np.repeat(ends, lengths) - np.arange(1, len(data) + 1)
    parts = _tables().take(followed_by * 256 + data)
    return _mask_all(np.bitwise_xor.reduceat(parts, starts) ^ np.uint32(0xFFFFFFFF))


def _mask_all(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK_DELTA)


def unmasked(masked: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The CRCs that TFRecord stores as these, uint32 of any shape."""
    rotated = masked - np.uint32(_MASK_DELTA)
    return (rotated >> np.uint32(17)) | (rotated << np.uint32(15))


def _advance(state: int, block: NDArray[np.uint8]) -> int:
    """The CRC register after `block`: a CRC is linear, so every byte adds its own part whatever the others are."""
    size = len(block)
    block = block.copy()
    head = np.frombuffer(state.to_bytes(4, "little"), np.uint8)[:size]
    block[: len(head)] ^= head
    parts = _tables().take(_rows()[_BLOCK - size :] + block)
    return int(np.bitwise_xor.reduce(parts)) ^ (state >> (8 * size) if size < 4 else 0)


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


@cache
def _tables() -> NDArray[np.uint32]:
    """uint32 of shape [_BLOCK * 256]: at `d * 256 + b` what byte `b` adds when `d` bytes follow it."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ _POLYNOMIAL, table >> np.uint32(1))
    tables = np.empty((_BLOCK, 256), np.uint32)
    tables[0] = table
    for distance in range(1, _BLOCK):
        previous = tables[distance - 1]
        tables[distance] = table[previous & np.uint32(0xFF)] ^ (previous >> np.uint32(8))
    return tables.reshape(-1)


@cache
def _rows() -> NDArray[np.int64]:
    """int64 of shape [_BLOCK]: where in the tables the rows of a full block's bytes begin, the first byte first."""
    return np.arange(_BLOCK - 1, -1, -1, dtype=np.int64) * 256
