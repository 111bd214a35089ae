from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tfdist.data.random_access.crc32c import masked_crc32c
from tfdist.data.random_access.record_index import open_index
from tfdist.data.random_access.tfrecord_reader import CHECKED_TOGETHER_BYTES, TFRecordReader, all_whole, first_corrupt
from tfdist.errors import DataError

Write = Callable[..., Path]
RECORDS = [b"first", b"", b"the third record", bytes(3000)]


def test_records_in_any_order(write_tfrecord: Write) -> None:
    reader = TFRecordReader(
        (write_tfrecord("a", RECORDS[:1]), write_tfrecord("b", []), write_tfrecord("c", RECORDS[1:]))
    )
    assert len(reader) == 4
    assert reader.read(np.array([3, 0, 2, 1, 0])).cut() == [RECORDS[i] for i in (3, 0, 2, 1, 0)]
    assert reader.read(np.empty(0, np.int64)).cut() == []
    assert [name[-11:] for name in reader.names(np.array([2, 0]))] == ["c, record 1", "a, record 0"]


@pytest.mark.parametrize(
    ("kept", "record"),
    [
        (-1, 3),  # inside the last record's checksum
        (-3000, 3),
        (16 + len(b"first") + 5, 1),  # inside a header
        (5, 0),
    ],
)
def test_a_truncated_file(write_tfrecord: Write, kept: int, record: int) -> None:
    path = write_tfrecord("short", RECORDS)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=f"short is truncated: it ends inside record {record}"):
        TFRecordReader((path,))


def test_a_flipped_bit_in_a_length(write_tfrecord: Write) -> None:
    path = write_tfrecord("bad", RECORDS)
    data = bytearray(path.read_bytes())
    data[16 + len(RECORDS[0])] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="bad, record 1, at byte 21: the length's checksum is wrong"):
        TFRecordReader((path,))


def test_a_flipped_bit_in_the_data(write_tfrecord: Write) -> None:
    path = write_tfrecord("bad", RECORDS)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    reader = TFRecordReader((path,))
    with pytest.raises(DataError, match="bad, record 3, at byte 69: the data's checksum is wrong"):
        reader.read(np.arange(4))


def test_a_flipped_bit_in_a_large_record(write_tfrecord: Write) -> None:
    """Large records are verified one by one, small ones together."""
    path = write_tfrecord("bad", [bytes(CHECKED_TOGETHER_BYTES)] * 3)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    reader = TFRecordReader((path,))
    assert reader.read(np.arange(2)).cut() == [bytes(CHECKED_TOGETHER_BYTES)] * 2
    with pytest.raises(DataError, match="bad, record 2, at byte 16416: the data's checksum is wrong"):
        reader.read(np.arange(3))


@pytest.mark.parametrize(("compress", "kind"), [(gzip.compress, "GZIP"), (zlib.compress, "ZLIB")])
def test_a_compressed_file(write_tfrecord: Write, compress: Callable[[bytes], bytes], kind: str) -> None:
    path = write_tfrecord("packed", RECORDS)
    path.write_bytes(compress(path.read_bytes()))
    with pytest.raises(DataError, match=f"packed looks {kind}-compressed.*tf.io.TFRecordWriter without options"):
        TFRecordReader((path,))


def test_another_kind_of_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are not the records you are looking for.")
    with pytest.raises(DataError, match="notes.txt, record 0.* It may not be a TFRecord file"):
        TFRecordReader((path,))


def test_corrupt_records_are_left_out(write_tfrecord: Write) -> None:
    """A damaged length, damaged data and a cut end, in files of their own and together."""
    whole, bad = write_tfrecord("a", RECORDS), write_tfrecord("b", RECORDS)
    data = bytearray(bad.read_bytes())
    data[0] ^= 1
    data[16 + 5 + 16 + 12] ^= 1
    bad.write_bytes(data[:-10])
    reader = TFRecordReader((whole, bad), on_corrupt="skip")
    assert reader.read(np.arange(len(reader))).cut() == [*RECORDS, b""]
    assert [name[-11:] for name in reader.names(np.array([0, 3, 4]))] == ["a, record 0", "a, record 3", "b, record 1"]


def test_an_index_that_knows_of_corrupt_records_stops_the_run_at_once(write_tfrecord: Write) -> None:
    path = write_tfrecord("bad", RECORDS)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    open_index(path, verify=True)
    with pytest.raises(DataError, match="bad, record 3, at byte 69: the data's checksum is wrong.* on_corrupt: skip"):
        TFRecordReader((path,))


def test_a_file_that_changed_is_named_rather_than_the_record(write_tfrecord: Write) -> None:
    path = write_tfrecord("a", RECORDS)
    reader = TFRecordReader((path,))
    reader.read(np.array([0]))
    path.write_bytes(bytes(path.stat().st_size))
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match="a changed while the run was using it: written again"):
        reader.read(np.array([2]))


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
