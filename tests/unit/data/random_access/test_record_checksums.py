from __future__ import annotations

import struct

import numpy as np
import pytest

from tfdist.data.random_access.crc32c import masked_crc32c
from tfdist.data.random_access.record_checksums import all_whole, first_corrupt


def framed(sizes: list[int], gaps: list[int], seed: int = 0) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Records with their footers, each after so many bytes of anything; where each begins; their sizes."""
    generator = np.random.default_rng(seed)
    data, starts = b"", []
    for size, gap in zip(sizes, gaps, strict=True):
        record = generator.bytes(size)
        data += generator.bytes(gap)
        starts.append(len(data))
        data += record + struct.pack("<I", masked_crc32c(record))
    return data, np.array(starts), np.array(sizes)


def is_whole(data: bytes, starts: np.ndarray, sizes: np.ndarray) -> bool:
    return all_whole(np.frombuffer(data, np.uint8).copy(), starts, sizes)


@pytest.mark.parametrize("seed", range(20))
def test_whole_records_of_any_size_in_any_order(seed: int) -> None:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 40))
    sizes = generator.choice([0, 1, 2, 3, 4, 5, 17, 1000], count).tolist()
    data, starts, lengths = framed(sizes, generator.choice([0, 12, 3], count).tolist(), seed)
    order = generator.permutation(count)
    again = np.concatenate([order, order[:3]])  # a record may be asked for twice
    assert is_whole(data + b"behind", starts[again], lengths[again])
    assert first_corrupt(data, starts[again], lengths[again]) is None


def test_every_changed_bit_is_noticed_and_named() -> None:
    data, starts, sizes = framed([0, 1, 5, 30, 2], [0, 12, 0, 0, 12])
    ends = starts + sizes + 4
    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            (within,) = np.nonzero((starts <= place) & (place < ends))
            assert is_whole(bytes(changed), starts, sizes) == (not len(within)), (place, bit)
            assert first_corrupt(bytes(changed), starts, sizes) == (within[0] if len(within) else None)


def test_several_changed_records_are_noticed() -> None:
    data, starts, sizes = framed([20] * 6, [0] * 6)
    changed = bytearray(data)
    for place in (starts[1], starts[2] + 3, starts[5] + 19):
        changed[place] ^= 0x55
    assert not is_whole(bytes(changed), starts, sizes)
    assert first_corrupt(bytes(changed), starts[::-1], sizes) == 0
    assert first_corrupt(bytes(changed), starts, sizes) == 1


def test_no_records() -> None:
    none = np.empty(0, np.int64)
    assert first_corrupt(b"", none, none) is None
    assert is_whole(b"", none, none)
