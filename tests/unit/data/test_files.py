from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tfdist.data import files
from tfdist.data.files import RecordReader, Records, matching
from tfdist.errors import DataError


def whole_file(path: Path) -> files.Spans:
    return np.array([0]), np.array([path.stat().st_size])


def write(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).write_text(name)
    return [folder / name for name in names]


def test_patterns_and_paths_are_sorted_and_named_once(tmp_path: Path) -> None:
    a, b, c = write(tmp_path, "a.txt", "b.txt", "c.csv")
    assert matching([str(c), str(tmp_path / "*.txt"), a]) == (a, b, c)


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "train[1].txt")
    assert matching(path) == (path,)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("gone.txt", "No such file: .*gone.txt"),
        ("gone-*.txt", "No file matches .*gone-\\*.txt"),
        (".", "is a directory"),
    ],
)
def test_what_cannot_be_found(tmp_path: Path, pattern: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        matching(str(tmp_path / pattern))


def test_an_empty_list() -> None:
    with pytest.raises(DataError, match="an empty list"):
        matching([])


def test_records_are_numbered_through_files_and_empty_ones_are_skipped(tmp_path: Path) -> None:
    paths = write(tmp_path, "a", "b", "c", "d")
    counts = {paths[0]: 0, paths[1]: 2, paths[2]: 0, paths[3]: 1}
    records = Records.index(paths, lambda path: (np.arange(counts[path]), np.ones(counts[path], np.int64)))
    assert records.files_of(np.arange(len(records))).tolist() == [1, 1, 3]


def test_no_record_at_all(tmp_path: Path) -> None:
    paths = write(tmp_path, "a", "b")
    with pytest.raises(DataError, match="at least one sample. Received: 2 file"):
        Records.index(paths, lambda path: (np.empty(0, np.int64), np.empty(0, np.int64)))


def test_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_OPEN_FILES", 2)
    paths = write(tmp_path, "a", "b", "c", "d")
    reader = RecordReader(Records.index(paths, whole_file))
    assert reader.read(np.array([3, 2, 1, 0, 3])) == [b"d", b"c", b"b", b"a", b"d"]


def test_files_are_closed_with_the_reader(tmp_path: Path) -> None:
    reader = RecordReader(Records.index(write(tmp_path, "a"), whole_file))
    reader.read(np.array([0]))
    (descriptor,) = reader._open.values()
    del reader
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_that_shrinks_or_goes_during_the_run(tmp_path: Path) -> None:
    kept, gone = write(tmp_path, "kept", "gone")
    reader = RecordReader(Records.index([kept, gone], whole_file))
    kept.write_text("")
    gone.unlink()
    with pytest.raises(DataError, match="kept has become shorter"):
        reader.read(np.array([0]))
    with pytest.raises(DataError, match="Cannot read .*gone: No such file"):
        reader.read(np.array([1]))
