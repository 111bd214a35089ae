from __future__ import annotations

import errno
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdist.data.files.file_facts import FileStamp
from tfdist.data.random_access import index_files, record_index, tfrecord_scan
from tfdist.data.random_access.crc32c import crc32c
from tfdist.data.random_access.record_index import open_index
from tfdist.errors import DataError

Write = Callable[[str, Iterable[bytes]], Path]
RECORDS = [b"first", b"", b"the third record", bytes(3000), b"last"]


def contents(path: Path, found: record_index.RecordIndex) -> list[bytes]:
    data = path.read_bytes()
    offsets, sizes = found.spans(np.arange(len(found)))
    return [data[start : start + size] for start, size in zip(offsets.tolist(), sizes.tolist(), strict=True)]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def header_of(number: int) -> int:
    """Where record `number` of RECORDS begins in its file."""
    return sum(len(record) + 16 for record in RECORDS[:number])


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("chunk", [16, 40, 100, 1 << 20])
def test_the_records_of_a_file(
    write_tfrecord: Write, monkeypatch: pytest.MonkeyPatch, chunk: int, verify: bool
) -> None:
    monkeypatch.setattr(tfrecord_scan, "CHUNK", chunk)
    monkeypatch.setattr(tfrecord_scan, "SKIP_CHUNK", 16)
    path = write_tfrecord("a", RECORDS)
    assert contents(path, open_index(path, verify=verify)) == RECORDS


@settings(max_examples=30)
@given(lines=st.lists(st.sampled_from([b"", b"a", b"bc", b"\r", b"d\r", b"\xef\xbb\xbf"]), max_size=8))
def test_lines_are_those_that_are_not_empty(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(b"x\n" + b"\n".join(lines))
    found = contents(path, open_index(path, "lines", keep=False))
    assert [line.partition(b"\n")[0].removesuffix(b"\r") for line in found] == [
        b"x",
        *(line.removesuffix(b"\r") for line in lines if line.removesuffix(b"\r")),
    ]


def test_no_record(write_tfrecord: Write) -> None:
    path = write_tfrecord("a", [])
    assert len(open_index(path)) == len(open_index(path, "lines")) == 0


def test_an_index_is_kept_next_to_the_data_and_mapped(write_tfrecord: Write) -> None:
    path = write_tfrecord("a", RECORDS)
    assert open_index(path).file == path.parent / ".a.tfindex"
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".a.tfindex", "a"], "no temporary file is left"
    built = (path.parent / ".a.tfindex").stat()
    again = open_index(path)
    assert contents(path, again) == RECORDS
    assert isinstance(again.starts, np.memmap)
    assert os.path.samestat((path.parent / ".a.tfindex").stat(), built), "it is not built again"


def changed_size(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def changed_time(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def damaged_index(path: Path) -> None:
    flip(path.parent / ".a.tfindex", 20)


def damaged_start(path: Path) -> None:
    """Every record would be read from another place than its own."""
    flip(path.parent / ".a.tfindex", index_files.HEADER_BYTES + 8)


def cut_index(path: Path) -> None:
    kept = path.parent / ".a.tfindex"
    kept.write_bytes(kept.read_bytes()[:-1])


@pytest.mark.parametrize("change", [changed_size, changed_time, damaged_index, damaged_start, cut_index])
def test_a_stale_index_is_rebuilt(write_tfrecord: Write, change: Callable[[Path], None]) -> None:
    path = write_tfrecord("a", RECORDS)
    open_index(path)
    change(path)
    found = open_index(path)
    assert contents(path, found) == RECORDS * (len(found) // len(RECORDS))
    assert found.stamp == FileStamp.of(path.stat())


def test_an_index_of_another_kind_is_rebuilt(write_tfrecord: Write) -> None:
    path = write_tfrecord("a", [b"x\ny"])
    assert len(open_index(path)) == 1
    assert len(open_index(path, "lines")) == 2


def test_an_unverified_index_is_rebuilt_where_it_must_be_verified(write_tfrecord: Write) -> None:
    path = write_tfrecord("a", RECORDS)
    open_index(path)
    flip(path, header_of(2) + 12)
    stamp = open_index(path).stamp
    assert len(open_index(path, verify=True).corrupt) == 1
    assert len(open_index(path).corrupt) == 1, "the better index stays"
    assert open_index(path).stamp == stamp


def refuse(monkeypatch: pytest.MonkeyPatch, folder: Path, number: int) -> None:
    """Lets no file be made in `folder`, as a read-only file system does, also to root."""
    original = open

    def guarded(path: object, mode: str = "r", *args: object) -> object:
        if "x" in mode and Path(str(path)).parent == folder:
            raise OSError(number, os.strerror(number))
        return original(path, mode, *args)  # type: ignore[call-overload]

    monkeypatch.setattr(index_files, "open", guarded, raising=False)


def test_where_the_data_is_read_only_the_cache_has_the_index(
    write_tfrecord: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = write_tfrecord("a", RECORDS), tmp_path / "cache"
    refuse(monkeypatch, path.parent, errno.EROFS)
    found = open_index(path, cache=cache)
    assert found.file is not None and found.file.parent == cache
    built = found.file.stat()
    assert contents(path, open_index(path, cache=cache)) == RECORDS
    assert os.path.samestat(found.file.stat(), built), "it is not built again"


def test_where_nothing_can_be_written_the_index_lives_in_the_process(
    write_tfrecord: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tfrecord("a", RECORDS)
    refuse(monkeypatch, path.parent, errno.EACCES)
    found = open_index(path, cache=path / "no folder")
    assert found.file is None
    assert contents(path, found) == RECORDS


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from tfdist.data.random_access.index_files import writing

with writing([Path({str(tmp_path / "a.tfindex")!r})]) as (file, place):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", program], timeout=150, check=False)
    assert killed.returncode == -9 and len(list(tmp_path.iterdir())) == 1
    with index_files.writing([tmp_path / "a.tfindex"]) as (file, _):
        file.write(b"index")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tfindex"]


def test_a_user_without_a_home_has_no_cache(write_tfrecord: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a user number without a name."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    path = write_tfrecord("a", RECORDS)
    assert open_index(path).file == path.parent / ".a.tfindex"
    refuse(monkeypatch, path.parent, errno.EACCES)
    (path.parent / ".a.tfindex").unlink()
    assert contents(path, open_index(path)) == RECORDS


def test_where_the_disk_is_full_the_next_place_is_taken(
    write_tfrecord: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = write_tfrecord("a", RECORDS), tmp_path / "cache"
    original = os.fsync
    full = iter([True])

    def fsync(descriptor: int) -> None:
        if next(full, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    found = open_index(path, cache=cache)
    assert found.file is not None and found.file.parent == cache
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "cache"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EBUSY])
def test_where_a_rename_fails_the_index_is_not_kept_and_the_data_is_read(
    number: int, write_tfrecord: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    path = write_tfrecord("a", RECORDS)
    monkeypatch.setattr(os, "replace", fails)
    found = open_index(path, cache=tmp_path / "cache")
    assert contents(path, found) == RECORDS and found.file is None
    assert [entry.name for entry in tmp_path.rglob("*") if entry.is_file()] == ["a"]


@pytest.mark.parametrize("keep", [True, False])
def test_where_all_disks_are_full_the_data_is_not_said_to_be_unreadable(
    write_tfrecord: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    path = write_tfrecord("a", RECORDS)

    def writing(candidates: object) -> object:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(index_files, "writing", writing)
    with pytest.raises(DataError, match="no room for the index of .*a: No space left on device in .* set TMPDIR"):
        open_index(path, cache=tmp_path / "cache", keep=keep)


def test_a_file_that_changes_while_it_is_read(write_tfrecord: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tfrecord("a", RECORDS)
    original = os.pread

    def pread(*place: int) -> bytes:
        os.utime(path, ns=(1, 1))
        return original(*place)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(DataError, match="a changed while it was indexed"):
        open_index(path)
    assert not (path.parent / ".a.tfindex").exists()


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Cannot read .*gone: No such file"):
        open_index(tmp_path / "gone")


# Corrupt records, in chunks of every size: the record itself, and the search for the next one, meet their ends.

CHUNKS = [16, 40, 1 << 20]


@pytest.fixture(params=CHUNKS)
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(tfrecord_scan, "CHUNK", request.param)
    return int(request.param)


@pytest.mark.parametrize("number", [0, 2, 3, 4])
def test_corrupt_data_is_found_by_verifying(write_tfrecord: Write, chunk: int, number: int) -> None:
    path = write_tfrecord("a", RECORDS)
    flip(path, header_of(number) + 13)
    found = open_index(path, verify=True)
    assert contents(path, found)[number - 1] == RECORDS[number - 1]
    assert list(found.problems()) == [
        f"{path}, record {number}, at byte {header_of(number)}: the data's checksum is wrong, the file is damaged."
    ]


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_after_a_damaged_length_the_next_record_is_found(write_tfrecord: Write, chunk: int, number: int) -> None:
    path = write_tfrecord("a", RECORDS)
    flip(path, header_of(number))
    found = open_index(path, verify=True)
    assert found.corrupt["record"].tolist() == [number]
    assert [text for i, text in enumerate(contents(path, found)) if i != number] == [
        record for i, record in enumerate(RECORDS) if i != number
    ]
    assert "the length's checksum is wrong" in next(found.problems())


def test_what_is_corrupt_before_a_damaged_length_is_found_too(write_tfrecord: Write, chunk: int) -> None:
    path = write_tfrecord("a", RECORDS)
    flip(path, header_of(0) + 13)
    flip(path, header_of(2))
    assert open_index(path, verify=True).corrupt["record"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("kept", "record"),
    [
        (header_of(4) + 18, 4),  # inside the last record
        (header_of(4) + 3, 4),  # inside its header
        (header_of(3) + 100, 3),
        (header_of(1) + 14, 1),
    ],
)
def test_what_the_end_of_the_file_cuts_off_is_corrupt(
    write_tfrecord: Write, chunk: int, kept: int, record: int
) -> None:
    path = write_tfrecord("a", RECORDS)
    path.write_bytes(path.read_bytes()[:kept])
    found = open_index(path, verify=True)
    told = f"{path} is truncated: it ends inside record {record}, which begins at byte {header_of(record)}."
    assert list(found.problems()) == [told]
    assert contents(path, found)[:record] == RECORDS[:record]
    with pytest.raises(DataError, match=f"it ends inside record {record}, .* on_corrupt: skip"):
        open_index(write_copy(path))


def write_copy(path: Path) -> Path:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    return copy


def test_without_verifying_a_damaged_length_is_an_error(write_tfrecord: Write, chunk: int) -> None:
    path = write_tfrecord("a", RECORDS)
    flip(path, header_of(2))
    with pytest.raises(DataError, match=f"a, record 2, at byte {header_of(2)}: the length's checksum is wrong"):
        open_index(path)


@pytest.mark.parametrize("verify", [False, True])
def test_another_kind_of_file(tmp_path: Path, verify: bool) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are not the records you are looking for.")
    with pytest.raises(DataError, match=r"notes.txt.* (It may not be|Expected) a TFRecord file"):
        open_index(path, verify=verify)


@pytest.mark.parametrize(
    ("starts", "corrupt"),
    [
        ([12, 100, 50, 200, 210, 3200], []),
        ([-5, 33, 49, 81, 3097, 3117], []),
        ([12, 33, 49, 81, 3097, 1 << 40], []),
        ([12, 13, 49, 81, 3097, 3117], []),  # a record of -15 bytes
        ([12, 33, 49, 81, 3097, 3117], [(9, 1)]),
        ([12, 33, 49, 81, 3097, 3117], [(1, 7)]),
        ([12, 33, 49, 81, 3097, 3117], [(2, 1), (1, 1)]),
    ],
)
def test_an_index_that_leads_elsewhere_is_rebuilt(
    write_tfrecord: Write, starts: list[int], corrupt: list[tuple[int, int]]
) -> None:
    """Whoever wrote it, with checksums that are right."""
    path = write_tfrecord("a", RECORDS)
    open_index(path)
    content = np.array(starts, "<i8").tobytes() + np.array(corrupt, index_files.CORRUPT).tobytes()
    stamp = FileStamp.of(path.stat())
    header = index_files.IndexHeader(b"tfrc", True, stamp, len(starts) - 1, len(corrupt), crc32c(content))
    (path.parent / ".a.tfindex").write_bytes(header.to_bytes() + content)
    assert contents(path, open_index(path)) == RECORDS


def test_much_damage_costs_no_more_than_some_reads_of_the_file(
    write_tfrecord: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece of the file is not read again for each damaged record in it."""
    path = write_tfrecord("a", [b""] * 2000)
    content = bytearray(path.read_bytes())
    for header in range(16, len(content), 32):
        content[header] ^= 1
    path.write_bytes(content)
    read = 0

    def count(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = os.pread(descriptor, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(tfrecord_scan, "os", SimpleNamespace(pread=count))
    assert len(open_index(path, verify=True, keep=False).corrupt) == 1000
    assert read < 1000 * (2 * tfrecord_scan.SKIP_CHUNK + 100) + 4 * len(content)
