from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.data.random_access.line_files import lines_of, write
from tfdist.data.random_access import numbered_records
from tfdist.data.random_access.numbered_records import Records
from tfdist.errors import DataError

Write = Callable[[str, Iterable[bytes]], Path]


def test_records_are_numbered_through_files_and_empty_ones_are_skipped(tmp_path: Path) -> None:
    found = Records.open(write(tmp_path, a="", b="0\n1\n", c="", d="2"), "lines")
    assert found.locate(np.arange(len(found))).files.tolist() == [1, 1, 3]
    assert lines_of(found, [2, 0, 1]) == [b"2", b"0", b"1"]


def test_headers_are_no_samples(tmp_path: Path) -> None:
    found = Records.open(write(tmp_path, a="x\n0\n1\n", b="", c="x\n", d="\nx\n2\n"), "lines", header=True)
    assert lines_of(found, range(len(found))) == [b"0", b"1", b"2"]


def test_how_many_and_how_large(tmp_path: Path, write_tfrecord: Write) -> None:
    found = Records.open(write(tmp_path, a="x\n0\n1\n", b="", c="x\n", d="\nx\n2\n"), "lines", header=True)
    assert found.counts.tolist() == [2, 0, 0, 1]
    records = Records.open([write_tfrecord("e", [b"12", b""]), write_tfrecord("f", [b"1234"])], "tfrecord")
    assert (records.counts.tolist(), records.mean_bytes) == ([2, 1], 2.0)


def test_parts_of_files(tmp_path: Path) -> None:
    found = Records.open(write(tmp_path, a="x\n0\n1\n2\n", b="", c="x\n3\n4\n"), "lines", header=True)
    part = found.within([(2, 1), (0, 0), (0, 2)])
    assert lines_of(part, range(len(part))) == [b"1", b"3"] and part.counts.tolist() == [1, 0, 1]
    assert len(found.within([(0, 9), (0, 9), (0, 9)])) == len(found) == 5
    with pytest.raises(DataError, match="at least one sample. Received: none of .*a and the files beside it"):
        found.within([(9, 9), (0, 0), (0, 0)])


def test_no_sample_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at least one sample. Received: 2 file"):
        Records.open(write(tmp_path, a="", b="\n"), "lines")


@settings(max_examples=40)
@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=5), data=st.data())
def test_any_samples_of_any_files(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("records")
    names = [f"{file}.{line}" for file, count in enumerate(counts) for line in range(count)]
    contents = {
        f"f{file}": "".join(f"{file}.{line}\n" for line in range(count)) for file, count in enumerate(counts)
    }
    if not names:
        return
    found = Records.open(write(folder, **contents), "lines")
    samples = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=12))
    assert lines_of(found, samples) == [names[sample].encode() for sample in samples]


def test_starts_of_many_records_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered_records, "IN_MEMORY_BYTES", 0)
    found = Records.open(write(tmp_path, a="0\n1\n", b="2\n"), "lines")
    assert isinstance(found.starts, np.memmap)
    assert lines_of(found, [2, 1]) == [b"2", b"1"]


def test_where_no_file_can_be_made_the_starts_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, a="0\n1\n", b="2\n")
    monkeypatch.setattr(numbered_records, "IN_MEMORY_BYTES", 0)

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(numbered_records.tempfile, "TemporaryFile", full)
    monkeypatch.setattr(numbered_records, "KEPT_FROM_BYTES", 0)  # the indices themselves lie next to their files
    assert lines_of(Records.open(paths, "lines"), [2, 1]) == [b"2", b"1"]


@pytest.mark.parametrize(("kept_from", "kept"), [(0, True), (100, False)])
def test_indices_of_small_data_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_from: int, kept: bool
) -> None:
    monkeypatch.setattr(numbered_records, "KEPT_FROM_BYTES", kept_from)
    Records.open(write(tmp_path, a="0\n"), "lines")
    assert (tmp_path / ".a.tfindex").exists() == kept


def test_files_that_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, a="0\n")

    def refuse(*_: object, **__: object) -> os.stat_result:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(DataError, match="Cannot read .*a: Permission denied"):
        Records.open(paths, "lines")


def test_the_first_file_that_cannot_be_indexed_is_named(tmp_path: Path, write_tfrecord: Write) -> None:
    paths = [write_tfrecord(name, [b"x"]) for name in ("a", "b", "c")]
    for path in paths[1:]:
        path.write_bytes(path.read_bytes()[:-1])
    for _ in range(5):
        with pytest.raises(DataError, match="b is truncated"):
            Records.open(paths, "tfrecord")
