from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tfdist.data.tools.file_checks import (
    FileCheck,
    FileProblem,
    check_file,
    missing_shards,
    render,
    to_json,
    total_size,
)

Write = Callable[..., Path]
RECORDS = [b"first", b"", b"the third record", bytes(3000)]
FRAME = 16


def offset_of(record: int) -> int:
    return sum(len(content) + FRAME for content in RECORDS[:record])


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def check(path: Path) -> FileCheck:
    advanced: list[int] = []
    found = check_file(path, advanced.append)
    assert sum(advanced) == found.size == (path.stat().st_size if path.exists() else 0)
    return found


def test_a_whole_file(write_tfrecord: Write) -> None:
    found = check(write_tfrecord("a", RECORDS))
    assert (found.records, found.problems) == (4, ())


def test_a_file_of_0_bytes_is_named(write_tfrecord: Write) -> None:
    path = write_tfrecord("empty", [])
    found = check(path)
    [problem] = found.problems
    assert (found.records, problem.record, problem.reason) == (0, None, "empty")
    assert problem.text.startswith(f"{path}: it has 0 bytes")
    assert "0 records   0 B   empty" in render([found], [])


@pytest.mark.parametrize(
    ("place", "record", "reason"),
    [
        (offset_of(1), 1, "length"),
        (offset_of(2) + 12, 2, "data"),
        (offset_of(3) + 12 + 2999, 3, "data"),
        (offset_of(3) + 12 + 3000, 3, "data"),  # in the checksum itself
    ],
)
def test_a_flipped_bit_costs_one_record(write_tfrecord: Write, place: int, record: int, reason: str) -> None:
    path = write_tfrecord("bad", RECORDS)
    flip(path, place)
    found = check(path)
    [problem] = found.problems
    assert (found.records, problem.record, problem.offset, problem.reason) == (3, record, offset_of(record), reason)
    assert str(path) in problem.text and str(offset_of(record)) in problem.text


def test_several_at_once_and_the_end_cut_off(write_tfrecord: Write) -> None:
    path = write_tfrecord("bad", RECORDS)
    flip(path, 12)
    path.write_bytes(path.read_bytes()[:-1])
    found = check(path)
    assert [(problem.record, problem.reason) for problem in found.problems] == [(0, "data"), (3, "truncated")]
    assert found.records == 2


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_file(write_tfrecord: Write, pack: Callable[[bytes], bytes]) -> None:
    path = write_tfrecord("a", RECORDS)
    content = path.read_bytes()
    path.write_bytes(pack(content))
    found = check(path)
    assert (found.records, found.problems) == (4, ())
    flip(path, path.stat().st_size - 1)
    assert [problem.reason for problem in check(path).problems] == ["unreadable"]
    path.write_bytes(pack(content[:-1] + b"\0"))
    [problem] = check(path).problems
    assert problem.text == f"{path}, record 3: the data's checksum is wrong, the file is damaged."


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("These are not the records you are looking for.")
    for name in ("text", "absent"):
        [problem] = check(tmp_path / name).problems
        assert (problem.record, problem.reason) == (None, "unreadable")
        assert name in problem.text
    assert total_size([tmp_path / "text", tmp_path / "absent"]) == 46


@pytest.mark.parametrize(
    ("there", "asked", "missing"),
    [
        (["a-00000-of-00002.tfrecord", "a-00001-of-00002.tfrecord"], 2, []),
        (["a-00000-of-00002.tfrecord", "a-00001-of-00002.tfrecord"], 1, []),  # it is there, if not asked for
        (["a-00001-of-00002.tfrecord"], 1, ["1 of 2 shards are missing: a-00000-of-00002.tfrecord."]),
        (["a-0-of-9"], 1, ["8 of 9 shards are missing: a-1-of-9, a-2-of-9, a-3-of-9, a-4-of-9, a-5-of-9 and 3 more."]),
        (["a.tfrecord", "b-of-c.tfrecord"], 2, []),
    ],
)
def test_missing_shards(tmp_path: Path, there: list[str], asked: int, missing: list[str]) -> None:
    for name in there:
        (tmp_path / name).touch()
    found = missing_shards([tmp_path / name for name in there[:asked]])
    assert [problem.text for problem in found] == [f"{tmp_path}: {text}" for text in missing]


def test_the_report_as_text_and_as_json() -> None:
    bad = FileProblem("b, record 1, at byte 9: wrong.", 1, 9, "data")
    gone = FileProblem("c: 1 of 2 shards are missing.", None, None, "missing")
    files = [FileCheck(Path("a"), 1500, 10, ()), FileCheck(Path("b"), 500, 4, (bad,) * 12)]
    assert render(files[:1], ()).splitlines() == [
        "a   10 records   1.50 kB   ok",
        "1 file, 10 records, 1.50 kB: nothing wrong",
    ]
    lines = render(files, (gone,)).splitlines()
    assert lines[1] == "b    4 records     500 B   damaged"
    assert lines[2:] == [
        *[f"  {bad.text}"] * 10,
        "  and 2 more",
        gone.text,
        "2 files, 14 records, 2.00 kB: 13 problems",
    ]
    assert render([FileCheck(Path("a"), 10, 1, ())] * 30, ()).splitlines()[0] == "30 files: ok"
    assert render([FileCheck(Path("a"), 10, 1, ())] * 30 + files[1:], ()).splitlines()[-2] == "30 files more: ok"
    document = to_json(files, ())
    assert (document["ok"], document["records"], document["files"][1]["problems"][0]["offset"]) == (False, 14, 9)
    assert to_json(files[:1], ())["ok"] and not to_json(files[:1], (gone,))["ok"]


def test_a_name_that_counts_more_shards_than_there_are_is_another_name(tmp_path: Path) -> None:
    assert list(missing_shards([tmp_path / "a-00000000001-of-99999999999.tfrecord"])) == []
