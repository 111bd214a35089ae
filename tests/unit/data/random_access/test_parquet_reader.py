"""Tests of the reader of Parquet files, and of their check."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist.config.data_sections import ParquetSource
from tfdist.data.format_registry import measure, sample_specs
from tfdist.data.random_access import parquet_reader
from tfdist.data.random_access.parquet_columns import load_pyarrow
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.data.sample_source import ArraySpec, SampleSpecs
from tfdist.data.tools.format_checks import ParquetRules, make_parquet_checker
from tfdist.errors import DataError, UsageError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def no_look_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Footers are not read by another process first: none of them is hostile."""
    monkeypatch.setattr(parquet_reader, "check_footers", lambda paths: None)


def write(path: Path, rows: int = 10, first: int = 0, group: int = 4, **columns: Any) -> Path:
    numbers = np.arange(first, first + rows)
    table = pa.table({"a": numbers.astype(np.float64) / 2, "y": numbers, **columns})
    pq.write_table(table, path, row_group_size=group, use_dictionary=False, write_page_checksum=True)
    return path


def reader(*paths: Path, label: str = "y", interleave: int = 64, **features: Any) -> ParquetReader:
    return ParquetReader(paths, ParquetFeatures(label, **features), interleave)


def test_rows_of_several_files_in_any_order(tmp_path: Path) -> None:
    empty = write(tmp_path / "b.parquet", 0)
    found = reader(write(tmp_path / "a.parquet"), empty, write(tmp_path / "c.parquet", 3, first=10))
    assert (len(found), found.lanes.counts, found.lanes.number) == (13, (4, 4, 2, 3), 4)
    order = np.array([12, 0, 9, 4, 4, 11])
    a, y = found.read(order)
    assert (a.dtype, y.dtype) == (np.float32, np.int64)
    assert y.tolist() == order.tolist() and a.tolist() == (order / 2).tolist()
    assert [values.shape for values in found.read(np.empty(0, np.int64))] == [(0,), (0,)]
    assert found.name(9) == f"{tmp_path / 'a.parquet'}, row 9" and found.name(12) == f"{tmp_path / 'c.parquet'}, row 2"


def test_few_row_groups_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", 40)
    monkeypatch.setattr(parquet_reader, "HELD_BYTES", 4 * 2 * (4 + 8) * 3)  # three row groups and the next of each
    found = reader(path)
    assert found.lanes.number == 3
    decoded = []
    decode = found._decode
    monkeypatch.setattr(found, "_decode", lambda group: decoded.append(group.number) or decode(group))
    assert found.read(np.arange(40))[1].tolist() == list(range(40))
    assert len(found._decoded) == 6
    found.read(np.arange(16, 40))
    assert decoded == list(range(10))
    found.read(np.array([0]))
    assert decoded == [*range(10), 0]
    assert reader(path, interleave=2).lanes.number == 2


@pytest.mark.parametrize(
    ("column", "shape", "spec", "value"),
    [
        (pa.array([1, 2], pa.uint8()), None, ArraySpec("uint8"), 2),
        (pa.array([1.5, 2.5], pa.float16()), None, ArraySpec("float32"), 2.5),
        (pa.array([False, True]), None, ArraySpec("bool"), True),
        (pa.array(["a", "é"]), None, ArraySpec("string"), "é".encode()),
        (pa.array([b"\xff", b"\x00"]), None, ArraySpec("string"), b"\x00"),
        (pa.array(["a", "b"]).dictionary_encode(), None, ArraySpec("string"), b"b"),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), None, ArraySpec("int32", (2,)), [3, 4]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.float64())), (2,), ArraySpec("float32", (2,)), [3, 4]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)), (2, 1), ArraySpec("int8", (2, 1)), [[3], [4]]),
        (pa.array([["a"], ["b"]], pa.large_list(pa.string())), (1,), ArraySpec("string", (1,)), [b"b"]),
    ],
)
def test_types(tmp_path: Path, column: Any, shape: tuple[int, ...] | None, spec: ArraySpec, value: Any) -> None:
    path = write(tmp_path / "a.parquet", 2, x=column)
    found = reader(path, columns=["x"], shapes=None if shape is None else {"x": shape})
    x, _ = found.read(np.array([1, 0]))
    assert found.specs[0] == spec and x.shape == (2, *spec.shape)
    assert x[0].tolist() == value if spec.shape or spec.dtype != "string" else x[0] == value


@pytest.mark.parametrize(
    ("column", "features", "text"),
    [
        (pa.array([1, None]), {}, r"row group 0, column x: row 1 has no value \(null\). Expected .* Fill it in"),
        (pa.array([[1], [1, 2]]), {"shapes": {"x": [1]}}, "row group 0, column x: row 1 has 2 values, expected 1"),
        (pa.array([[1], [None]]), {"shapes": {"x": [1]}}, r"column x: row 1 has a list with a missing value \(null\)"),
        (pa.array([[1], [2]]), {}, r"column x: a value is a list \(.*\) of a size that its type does not say"),
        (pa.array([1, 2]), {"shapes": {"x": [1]}}, "column x: a shape is given for it, and a value is no list but int"),
        (pa.array([[1], [2]], pa.list_(pa.int8(), 1)), {"shapes": {"x": [2]}}, r"its lists have 1 values, .*\[2\]"),
        (pa.array([0, 1], pa.date32()), {}, r"column x: its type is date32\[day\]. Expected numbers"),
        (pa.array([1, 2]), {"columns": ["ax"]}, "has no column ax. It has: a, y, x. Did you mean"),
        (pa.array([1, 2]), {"label": "z"}, "has no column z"),
        (pa.array([1, 2]), {"shapes": {"b": [2]}}, "shapes has b, which is not read. Read: a, x."),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, column: Any, features: dict[str, Any], text: str) -> None:
    path = write(tmp_path / "a.parquet", 2, x=column)
    with pytest.raises(DataError, match=text):
        reader(path, **features).read(np.arange(2))


def test_files_differ(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet", 2, x=pa.array([1, 2]))
    other = write(tmp_path / "b.parquet", 2, x=pa.array([1.0, 2.0]))
    with pytest.raises(DataError, match=r"b.parquet, column x: its type is double. Expected int64, as in .*a.parquet"):
        reader(first, other)
    with pytest.raises(DataError, match=r"b.parquet has no column x"):
        reader(first, write(tmp_path / "b.parquet", 2))
    with pytest.raises(DataError, match=r"Expected at least one row. Received: 1 file\(s\) without any: .*b.parquet"):
        reader(write(tmp_path / "b.parquet", 0))


def damage(path: Path) -> None:
    """Changes a byte of the second row group's last column."""
    start = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    size = pq.ParquetFile(path).metadata.row_group(1).column(1).total_compressed_size
    content[start + size - 2] ^= 0xFF
    path.write_bytes(content)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    damage(path)
    found = reader(path)
    assert found.read(np.arange(4))[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"a.parquet, row group 1 is damaged or cannot be read: .*data check"):
        found.read(np.array([5]))
    (tmp_path / "cut.parquet").write_bytes(write(tmp_path / "b.parquet").read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cut.parquet cannot be read as a Parquet file: .*write or copy it again"):
        reader(tmp_path / "cut.parquet")


def test_a_file_that_changes_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    found = reader(path)
    found.read(np.array([0]))
    write(path, 10, first=5)
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"a.parquet changed while the run was using it"):
        found.read(np.array([9]))


def test_the_check_finds_every_damaged_row_group(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    check, reported = make_parquet_checker(ParquetRules()), []
    good = check(path, reported.append)
    assert (good.records, good.problems, sum(reported)) == (10, (), path.stat().st_size)
    damage(path)
    bad = check(path, reported.append)
    assert (bad.records, [problem.record for problem in bad.problems]) == (6, [4])
    assert f"{path}, row group 1, rows 4 to 7: " in bad.problems[0].text
    assert check(path, reported.append) == bad
    assert not make_parquet_checker(ParquetRules(["a"]))(path, reported.append).problems  # the label alone is damaged
    path.write_bytes(b"")
    assert [problem.reason for problem in check(path, reported.append).problems] == ["empty"]
    path.write_bytes(b"PAR1 and no more")
    (problem,) = check(path, reported.append).problems
    assert problem.reason == "unreadable" and "cannot be read as a Parquet file" in problem.text
    (problem,) = make_parquet_checker(ParquetRules(["b"]))(write(path), reported.append).problems
    assert problem.text == f"{path} has no column b. It has: a, y."


def test_sizes(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", text=pa.array(["abc"] * 10))
    numbers = measure(ParquetSource(files=str(tmp_path / "*.parquet"), label="y", columns=["a"]))
    assert [file.samples for file in numbers.files] == [4, 4, 2] and numbers.sample_bytes == 4 + 8
    assert numbers.files[1].name == f"{tmp_path / 'a.parquet'}, row group 1" and not numbers.estimated
    assert numbers.sequence is not None and numbers.sequence.lanes.counts == (4, 4, 2)
    assert numbers.held_bytes == 2 * 3 * 4 * 12
    assert measure(ParquetSource(files=str(tmp_path / "*.parquet"), label="y")).estimated


def test_shapes_are_known_without_a_row(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", pair=pa.array([[1, 2]] * 10, pa.list_(pa.int8(), 2)))
    files = str(tmp_path / "*.parquet")
    a, pair, y = ArraySpec("float32"), ArraySpec("int8", (2,)), ArraySpec("int64")
    assert sample_specs(ParquetSource(files=files, label="y")) == SampleSpecs({"a": a, "pair": pair}, y)
    assert sample_specs(ParquetSource(files=files, label="y", columns=["pair"])) == SampleSpecs(pair, y)
    stacked = sample_specs(ParquetSource(files=files, label="y", stack=True))
    assert stacked == SampleSpecs(ArraySpec("float32", (3,)), y)


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError("No module named 'pyarrow'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"No module named 'pyarrow'.*pip install 'tfdist\[parquet\]'"):
        load_pyarrow()
