from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.data.random_access.crc32c import masked_crc32c, masked_crc32c_of_each, masked_crc32c_of_lengths


def unmasked(masked: int) -> int:
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def crc32c_bit_by_bit(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),  # the check value of the CRC catalogue
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_published_values(data: bytes, crc: int) -> None:
    assert unmasked(masked_crc32c(data)) == crc


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 1023, 1024, 1025, 1026, 1027, 1028, 4096, 5001])
def test_sizes_around_a_block(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert unmasked(masked_crc32c(data)) == crc32c_bit_by_bit(data)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_lengths(lengths: list[int]) -> None:
    expected = [masked_crc32c(length.to_bytes(8, "little")) for length in lengths]
    assert masked_crc32c_of_lengths(np.array(lengths, np.uint64)).tolist() == expected


@given(st.lists(st.sampled_from([0, 1, 3, 4, 5, 100, 1023, 1024, 1025, 3000]), max_size=8), st.randoms())
def test_many_records_at_once(sizes: list[int], random: Random) -> None:
    records = [random.randbytes(size) for size in sizes]
    starts = np.cumsum([3, *sizes], dtype=np.int64)[:-1]
    found = masked_crc32c_of_each(b"xyz" + b"".join(records), starts, np.array(sizes, np.int64))
    assert found.tolist() == [masked_crc32c(record) for record in records]
