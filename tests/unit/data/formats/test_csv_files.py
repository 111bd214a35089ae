from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdist.data.formats.csv_files import CsvReader
from tfdist.errors import DataError


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'height, width,"kind"\n1,2,0\n3.5,-4e1,1\n\n"5",6,0')
    reader = CsvReader((path,), label="kind", columns=["width", "height"])
    x, y = reader.read(np.array([2, 1]))
    assert (len(reader), reader.num_features) == (3, 2)
    np.testing.assert_array_equal(x, np.array([[6, 5], [-40, 3.5]], np.float32))
    np.testing.assert_array_equal(y, np.array([0, 1], np.float32))


def test_all_columns_but_the_label_and_no_row(tmp_path: Path) -> None:
    reader = CsvReader((write(tmp_path, "a.csv", "y,a,b\n1,2,3\n"),), label="y", columns=None)
    assert [values.shape for values in reader.read(np.empty(0, np.int64))] == [(0, 2), (0,)]
    assert reader.read(np.array([0]))[0].tolist() == [[2, 3]]


def test_empty_files_among_others(tmp_path: Path) -> None:
    paths = [write(tmp_path, name, content) for name, content in (("a", ""), ("b", "x,y\n1,2"), ("c", "x,y\n"))]
    assert len(CsvReader(tuple(paths), "y", None)) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,2", r"bad.csv, line 3: expected 3 columns \(a, b, y\), found 2. Received: 1,2"),
        ("1,2,3,4", "line 3: expected 3 columns .* found 4"),
        ("1,cat,3", "line 3: could not convert string to float: 'cat'"),
        ("1,,3", "line 3: could not convert string to float: ''"),
        ('1,"2,3', "line 3: unexpected end of data"),
    ],
)
def test_a_bad_row(tmp_path: Path, row: str, message: str) -> None:
    reader = CsvReader((write(tmp_path, "bad.csv", f"a,b,y\n1,2,3\n{row}\n"),), "y", None)
    with pytest.raises(DataError, match=message):
        reader.read(np.array([0, 1]))


@pytest.mark.parametrize(
    ("contents", "label", "columns", "message"),
    [
        (["a,kind\n1,2"], "knd", None, "0.csv has no column knd.* Did you mean kind?"),
        (["a,kind\n1,2"], "kind", ["b"], "0.csv has no column b"),
        (["a,a,y\n1,2,3"], "y", None, r"0.csv has 2 columns named 'a' \(1, 2\)"),
        (["y,a,y\n1,2,3"], "y", None, r"0.csv has 2 columns named 'y' \(1, 3\)"),
        (["a,,,y\n1,2,3,4"], "y", None, r"0.csv has 2 columns named '' \(2, 3\)"),
        (["a,y\n1,2", "y,a\n1,2"], "y", None, "1.csv has other columns"),
        (["a,y\n"], "y", None, "Expected at least one sample"),
        (["", ""], "y", None, "Expected at least one sample"),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, contents: list[str], label: str, columns: list[str] | None, message: str
) -> None:
    paths = tuple(write(tmp_path, f"{number}.csv", content) for number, content in enumerate(contents))
    with pytest.raises(DataError, match=message):
        CsvReader(paths, label, columns)


def test_columns_of_one_name_that_are_not_read(tmp_path: Path) -> None:
    reader = CsvReader((write(tmp_path, "a.csv", "a,a,b,y\n1,2,3,4\n"),), "y", ["b"])
    assert [values.tolist() for values in reader.read(np.array([0]))] == [[[3]], [4]]


def test_a_file_without_lines_is_not_read_for_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * (5 << 20) + b"\n1\n")
    with pytest.raises(DataError, match="a.csv, line 1: expected the names of the columns.* more than 4,194,304 bytes"):
        CsvReader((path,), "y", None)
