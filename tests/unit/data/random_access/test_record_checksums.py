from __future__ import annotations

import struct

import numpy as np
import pytest

from tfdist.data.random_access import crc32c
from tfdist.data.random_access.crc32c import library_value, masked_crc32c
from tfdist.data.random_access.record_checksums import all_whole, first_corrupt

needs_library = pytest.mark.skipif(library_value() is None, reason="google-crc32c is not installed")


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


@needs_library
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


@needs_library
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


@needs_library
def test_several_changed_records_are_noticed() -> None:
    data, starts, sizes = framed([20] * 6, [0] * 6)
    changed = bytearray(data)
    for place in (starts[1], starts[2] + 3, starts[5] + 19):
        changed[place] ^= 0x55
    assert not is_whole(bytes(changed), starts, sizes)
    assert first_corrupt(bytes(changed), starts[::-1], sizes) == 0
    assert first_corrupt(bytes(changed), starts, sizes) == 1


def test_without_the_library_each_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist.data.random_access.record_checksums.library_value", lambda: None)
    monkeypatch.setattr(crc32c, "library_value", lambda: None)
    data, starts, sizes = framed([10, 20], [0, 0])
    assert not is_whole(data, starts, sizes)
    assert first_corrupt(data, starts, sizes) is None
    assert first_corrupt(data[:12] + b"x" + data[13:], starts, sizes) == 0


def test_no_records() -> None:
    none = np.empty(0, np.int64)
    assert first_corrupt(b"", none, none) is None
