from __future__ import annotations

import errno
import gzip
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.data.conftest import WriteTFRecord
from tfdist.data.files.file_facts import FileStamp
from tfdist.data.random_access.crc32c import masked_crc32c
from tfdist.data.sequential import sequential_tfrecords
from tfdist.data.sequential.sequential_tfrecords import count_records
from tfdist.data.sequential.tfrecord_stream import CHUNK, TFRecordCompression, compression_of, read_records
from tfdist.errors import DataError

RECORDS = [b"", b"a", b"some" * 100, os.urandom(3 * CHUNK), b"last"]
PACK: dict[TFRecordCompression, Callable[[bytes], bytes]] = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}
Write = Callable[..., Path]


@pytest.fixture
def write(write_tfrecord: WriteTFRecord) -> Write:
    def write(name: str, records: list[bytes], compression: TFRecordCompression = "GZIP") -> Path:
        path = write_tfrecord(name, records)
        path.write_bytes(PACK[compression](path.read_bytes()))
        return path

    return write


def read(path: Path, compression: TFRecordCompression = "GZIP") -> list[bytes]:
    return [record for records in read_records(str(path), compression) for record in records]


@pytest.mark.parametrize("compression", list(PACK))
@pytest.mark.parametrize("records", [RECORDS, [], [b"x" * 100] * 10_000], ids=["sizes", "none", "many"])
def test_records_come_in_their_order(write: Write, compression: TFRecordCompression, records: list[bytes]) -> None:
    path = write("a", records, compression)
    assert read(path, compression) == records
    assert compression_of(str(path)) == (compression if records or compression else None)


def test_several_streams_in_one_file(write: Write) -> None:
    path = write("a", RECORDS[:3])
    path.write_bytes(path.read_bytes() + write("b", RECORDS[3:]).read_bytes())
    assert read(path) == RECORDS


def test_a_record_that_begins_like_a_compressed_file(write: Write) -> None:
    """The length of 35,615 bytes is written 1f 8b."""
    path = write("a", [bytes(0x8B1F)], "")
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert compression_of(str(path)) == ""


@pytest.mark.parametrize("keep", [0.2, 0.9, 0.999])
def test_a_truncated_file(write: Write, keep: float) -> None:
    path = write("a", [os.urandom(1000) for _ in range(1000)])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(DataError, match=r"a is truncated: its GZIP data ends at record \d+ or soon after it"):
        read(path)


def test_a_file_that_was_truncated_before_it_was_compressed(write: Write) -> None:
    path = write("a", [b"one", b"two"], "")
    path.write_bytes(gzip.compress(path.read_bytes()[:-5]))
    with pytest.raises(DataError, match="a is truncated: it ends inside record 1"):
        read(path)


def test_a_damaged_stream(write: Write) -> None:
    path = write("a", [os.urandom(1000) for _ in range(1000)])
    data = bytearray(path.read_bytes())
    data[-5] ^= 1  # of its own checksum, at the very end
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a, at record \d+ or soon after it: the GZIP data is damaged \(.*check"):
        read(path)


@pytest.mark.parametrize(("place", "what"), [(0, "length"), (13, "data"), (-1, "data")])
def test_a_damaged_record(write: Write, place: int, what: str) -> None:
    path = write("a", [b"one"] * 3, "")
    data = bytearray(path.read_bytes())
    data[19 * (2 if place < 0 else 1) + place] ^= 1
    path.write_bytes(gzip.compress(bytes(data)))
    with pytest.raises(DataError, match=f"a, record 1: the {what}'s checksum is wrong"):
        read(path)


def test_a_compressed_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"a text and no records\n" * 9))
    with pytest.raises(DataError, match="a, record 0: the length's checksum is wrong.* may not be a TFRecord"):
        read(tmp_path / "a")


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Cannot read .*gone: No such file"):
        read(tmp_path / "gone")


# Counting


def counts(paths: list[Path], cache: Path) -> list[int]:
    return [file.records for file in count_records([str(path) for path in paths], cache)]


def test_counts_are_kept_next_to_the_data_until_it_changes(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequential_tfrecords, "KEPT_FROM_BYTES", 1)
    paths = [write(name, [b"record"] * count) for name, count in (("a", 3), ("b", 0), ("c", 5))]
    assert counts(paths, tmp_path / "cache") == [3, 0, 5]
    kept = tmp_path / ".a.tfcount"
    assert json.loads(kept.read_bytes())["records"] == 3
    kept.write_bytes(kept.read_bytes().replace(b": 3", b": 4"))
    assert counts(paths, tmp_path / "cache") == [4, 0, 5], "not counted again"
    # As large as before, so that the time alone tells; on a fast machine that may be the same, too.
    os.utime(write("a", [b"record"] * 7), ns=(1, 1))
    assert counts(paths, tmp_path / "cache") == [7, 0, 5]
    kept.write_bytes(b"{")
    assert counts(paths, tmp_path / "cache") == [7, 0, 5]


def test_the_count_of_a_remote_file_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp, found = FileStamp(100_000_000, 7), []
    monkeypatch.setattr(sequential_tfrecords, "compression_of", lambda name: "GZIP")
    monkeypatch.setattr(sequential_tfrecords, "stamp_of", lambda name: stamp)
    monkeypatch.setattr(
        sequential_tfrecords, "read_records", lambda name, *_, **__: found.append(name) or iter([[b""] * 3])
    )
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        (file,) = count_records(["gs://bucket/x.gz"], tmp_path / "cache")
        assert file.records == 3
    assert found == ["gs://bucket/x.gz"], "counted once"
    count_records(["gs://other/x.gz"], tmp_path / "cache")
    assert len(found) == 2


def test_where_the_disk_is_full_the_cache_has_the_count_or_nothing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequential_tfrecords, "KEPT_FROM_BYTES", 1)
    path, cache, original = write("a", [b"record"] * 3), tmp_path / "cache", os.fsync
    full = 1

    def fsync(descriptor: int) -> None:
        nonlocal full
        full -= 1
        if full >= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert counts([path], cache) == [3]
    assert len(list(cache.iterdir())) == 1
    next(cache.iterdir()).unlink()
    full = 2
    assert counts([path], cache) == [3]
    assert sorted(tmp_path.rglob("*")) == [path, cache]


def test_a_file_that_changes_while_it_is_counted(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a", [b"record"])

    def changing(name: str, *_: object, **__: object) -> Iterator[list[bytes]]:
        os.utime(path, ns=(1, 1))
        yield [b"record"]

    monkeypatch.setattr(sequential_tfrecords, "read_records", changing)
    with pytest.raises(DataError, match="a changed while it was counted"):
        counts([path], tmp_path)


def test_small_data_is_counted_at_every_start(write: Write, tmp_path: Path) -> None:
    path = write("a", [b"record"])
    assert counts([path], tmp_path / "cache") == [1]
    assert sorted(tmp_path.iterdir()) == [path]


def test_files_that_are_compressed_in_different_ways(write: Write, tmp_path: Path) -> None:
    paths = [write("a", [b"x"]), write("b", [b"x"], "ZLIB"), write("c", [], "")]
    with pytest.raises(DataError, match="different ways: .*a is GZIP-compressed, .*b is ZLIB-compressed"):
        counts(paths, tmp_path)
    assert counts([paths[0], paths[2]], tmp_path) == [1, 0]


@pytest.mark.parametrize("compression", list(PACK))
@pytest.mark.parametrize("length", [(1 << 31) + 1, 1 << 40, (1 << 64) - 1])
def test_a_record_that_claims_more_than_can_be_held(
    tmp_path: Path, compression: TFRecordCompression, length: int
) -> None:
    """Nothing is gathered until it is whole: a small file may unpack to more than the memory has."""
    head = struct.pack("<Q", length)
    path = tmp_path / "a"
    path.write_bytes(PACK[compression](head + struct.pack("<I", masked_crc32c(head)) + bytes(100)))
    with pytest.raises(DataError, match=rf"a, record 0: it claims {length:,} bytes. Expected at most 2,147,483,648"):
        read(path, compression)


@pytest.mark.parametrize("records", [-1, "5", 1.5, 10**30, None])
def test_a_count_that_is_none_is_made_again(records: object, tmp_path: Path) -> None:
    stamp, place = FileStamp(100, 5), tmp_path / "a.tfcount"
    sequential_tfrecords._keep([place], stamp, 7)
    assert sequential_tfrecords._kept(place, stamp) == 7
    place.write_text(json.dumps({**json.loads(place.read_text()), "records": records}))
    assert sequential_tfrecords._kept(place, stamp) is None
    place.write_text("[" * 3000)
    assert sequential_tfrecords._kept(place, stamp) is None
