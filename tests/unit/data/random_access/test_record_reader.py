from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.unit.data.random_access.line_files import lines_of, write
from tfdist.data.random_access import record_reader
from tfdist.data.random_access.linux_aio import AioReader
from tfdist.data.random_access.numbered_records import Records
from tfdist.data.random_access.record_reader import RecordReader
from tfdist.errors import DataError


def test_records_one_after_another_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Records.open(write(tmp_path, a="0\n\n1\n2\n3\n", b="4\n5\n"), "lines")
    read: list[int] = []
    original = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, *where: read.append(where[0]) or original(descriptor, *where))
    assert lines_of(found, [0, 1, 2, 4, 5, 3, 2]) == [b"0", b"1", b"2", b"4", b"5", b"3", b"2"]
    assert len(read) == 2  # one a file; what is asked for twice is read once
    monkeypatch.setattr(record_reader, "MAX_RUN_BYTES", 4)
    assert lines_of(found, [0, 1, 2, 3]) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("most_bytes", [record_reader.MAX_RUN_BYTES, 6])
def test_any_three_of_files_with_records_in_the_same_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    """Where one file's record ends, the other file's next one begins: only the file tells them apart."""
    monkeypatch.setattr(record_reader, "MAX_RUN_BYTES", most_bytes)
    lines = [f"{file}{line}\n" for file in "abc" for line in range(3)]
    paths = write(tmp_path, **{file: "".join(line for line in lines if line[0] == file) for file in "abc"})
    reader = RecordReader(Records.open(paths, "lines"))
    for samples in itertools.product(range(len(lines)), repeat=3):
        expected = [lines[sample].encode() for sample in samples]
        assert reader.read(np.array(samples)).cut() == expected, samples


@pytest.mark.parametrize("at_once", [True, False])
def test_many_records_here_and_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """In one call of the system where there is such a call, and one by one."""
    if not at_once:
        monkeypatch.setattr(AioReader, "if_possible", lambda: None)
    elif AioReader.if_possible() is None:
        pytest.skip("this system does not read many places in one call")
    lines = [str(number) * (number % 7 + 1) for number in range(2000)]
    paths = write(tmp_path, a="\n".join(lines[:1500]) + "\n", b="\n".join(lines[1500:]) + "\n")
    reader = RecordReader(Records.open(paths, "lines"))
    assert not at_once or reader.reads_many
    generator = np.random.default_rng(0)
    for count in (40, 600, 1100):
        wanted = generator.permutation(2000)[:count]
        found = [line.strip().decode() for line in reader.read(wanted).cut()]
        assert found == [lines[number] for number in wanted.tolist()]


def test_a_file_that_becomes_shorter_among_many_reads(tmp_path: Path) -> None:
    (path,) = write(tmp_path, a="".join(f"{number}\n" for number in range(1000)))
    reader = RecordReader(Records.open([path], "lines"))
    reader.read(np.arange(0, 1000, 2))
    os.truncate(path, path.stat().st_size - 1)
    assert len(reader.read(np.arange(0, 999, 2)).cut()) == 500
    with pytest.raises(DataError, match="a changed while the run was using it: 3889 bytes instead of 3890"):
        reader.read(np.arange(1, 1000, 2))


def test_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_reader, "MAX_OPEN_FILES", 2)
    found = Records.open(write(tmp_path, a="a", b="b", c="c", d="d"), "lines")
    assert RecordReader(found).read(np.array([3, 2, 1, 0, 3])).cut() == [b"d", b"c", b"b", b"a", b"d"]


def test_files_are_closed_with_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RecordReader(Records.open(write(tmp_path, a="a"), "lines"))
    opened: list[int] = []
    original = os.open
    monkeypatch.setattr(os, "open", lambda *args: opened.append(original(*args)) or opened[-1])
    reader.read(np.array([0]))
    (descriptor,) = opened
    os.fstat(descriptor)
    del reader
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# Files that change under a run.


def shorter(path: Path) -> None:
    path.write_text("")


def rewritten(path: Path) -> None:
    path.write_text("1\n0\n")
    os.utime(path, ns=(1, 1))


def replaced(path: Path) -> None:
    (path.parent / "new").write_text("1\n0\n2\n")
    (path.parent / "new").rename(path)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shorter, "a changed while the run was using it: 0 bytes instead of 4"),
        (rewritten, "a changed while the run was using it: written again"),
        (replaced, "a changed while the run was using it: 6 bytes instead of 4"),
        (Path.unlink, "Cannot read .*a: No such file"),
    ],
)
def test_a_file_that_changes_is_named(
    tmp_path: Path, change: Callable[[Path], None], message: str, opened: bool
) -> None:
    (path,) = write(tmp_path, a="0\n1\n")
    reader = RecordReader(Records.open([path], "lines"), check_seconds=0)
    if opened:
        reader.read(np.array([0]))
    change(path)
    with pytest.raises(DataError, match=message):
        reader.read(np.array([1]))


def test_a_file_that_changes_between_two_looks_at_it_is_named_when_it_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_reader, "MAX_OPEN_FILES", 0)
    (path,) = write(tmp_path, a="0\n1\n")
    reader = RecordReader(Records.open([path], "lines"), check_seconds=3600)
    assert reader.read(np.array([0])).cut() == [b"0\n"]
    rewritten(path)
    with pytest.raises(DataError, match="a changed while the run was using it: written again"):
        reader.read(np.array([0]))


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write(tmp_path, a="0\n")
    found = Records.open([path], "lines")

    def refuse(*_: object) -> int:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DataError, match="Cannot read .*a: Permission denied"):
        RecordReader(found).read(np.array([0]))


@pytest.mark.parametrize(("slow_from", "announced"), [(-1.0, 3), (float("inf"), 0)])
def test_all_places_are_announced_to_a_slow_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_from: float, announced: int
) -> None:
    monkeypatch.setattr(record_reader, "SLOW_SECONDS", slow_from)
    did: list[str] = []
    advise, pread = os.posix_fadvise, os.pread
    monkeypatch.setattr(os, "posix_fadvise", lambda *where: did.append("advise") or advise(*where))
    monkeypatch.setattr(os, "pread", lambda *where: did.append("read") or pread(*where))
    reader = RecordReader(Records.open(write(tmp_path, a="0\n1\n2\n3\n4\n"), "lines"))
    reader.read(np.array([0]))
    assert did == ["read"], "nothing is announced before a read was slow"
    assert reader.read(np.array([4, 2, 0])).cut() == [b"4\n", b"2\n", b"0\n"]
    assert did[1:] == ["advise"] * announced + ["read"] * 3
