"""CRC-32C (Castagnoli) of TFRecord data, masked as TFRecord files store it, computed by google-crc32c."""

from __future__ import annotations

from functools import cache

import google_crc32c
import numpy as np
from numpy.typing import NDArray

_MASK_DELTA = np.uint32(0xA282EAD8)
_LENGTH_BYTES = 8


def crc32c(data: bytes | NDArray[np.uint8]) -> int:
    """Returns the CRC of `data`, not masked."""
    value: int = google_crc32c.value(data)
    return value


def extended(checksum: int, data: bytes) -> int:
    """Returns the CRC of what has the CRC `checksum`, 0 for nothing, followed by `data`; not masked."""
    value: int = google_crc32c.extend(checksum, data)
    return value


def masked_crc32c(data: bytes) -> int:
    """Returns the masked CRC of `data`, as TFRecord stores it after a record."""
    return int(_masked(np.array([crc32c(data)], np.uint32))[0])


def masked_crc32c_of_each(
    data: bytes, starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Returns the masked CRC of each record in `data`, uint32 [k].

    Args:
        data: Bytes that contain the records.
        starts: The offset of each record in `data`, [k].
        sizes: The size of each record in bytes, [k].
    """
    whole = np.frombuffer(data, np.uint8)  # slices of an array are not copied
    spans = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return _masked(np.array([crc32c(whole[start:stop]) for start, stop in spans], np.uint32))


def masked_crc32c_of_lengths(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Returns the masked CRC of each of `lengths` as 8 little-endian bytes, uint32 of the same shape [n].

    A CRC is linear: each byte contributes a value that depends on its place alone, and the contributions are combined
    by exclusive or. Looking them up for all lengths at once is faster than one call of the library for each length.
    """
    columns = lengths.astype("<u8").view(np.uint8).reshape(-1, _LENGTH_BYTES)
    crc = np.full(len(columns), crc32c(bytes(_LENGTH_BYTES)), np.uint32)
    for place, table in enumerate(_length_tables()):
        crc ^= table.take(columns[:, place])
    return _masked(crc)


def unmasked(masked: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Returns the CRCs of which `masked` are the masked values, uint32 of the same shape."""
    rotated = masked - _MASK_DELTA
    return (rotated >> np.uint32(17)) | (rotated << np.uint32(15))


def _masked(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _MASK_DELTA


@cache
def _length_tables() -> NDArray[np.uint32]:
    """The contribution of each byte of a length to its CRC, by its place and its value: uint32 [8, 256]."""
    zero = crc32c(bytes(_LENGTH_BYTES))
    tables = np.empty((_LENGTH_BYTES, 256), np.uint32)
    for place in range(_LENGTH_BYTES):
        before, after = bytes(place), bytes(_LENGTH_BYTES - 1 - place)
        tables[place] = [crc32c(before + bytes([value]) + after) ^ zero for value in range(256)]
    return tables
