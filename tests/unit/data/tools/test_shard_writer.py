from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfdist.config.data_sections import CsvSource, NpzSource, TextSource, TfrecordSource
from tfdist.data.tools.shard_writer import features_of, inputs_of, open_samples
from tfdist.errors import DataError, UsageError

LAST = np.array([1])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1.5, 2.5]), np.array([1.5, 2.5], np.float32)),
        (np.array([1, 255], np.uint8), np.array([1, 255])),
        (np.array([True, False]), np.array([1, 0])),
        (np.array([[1, 2], [3, -4]], np.int16), np.array([[1, 2], [3, -4]])),
        (np.array(["eins", "zwölf"]), np.array([b"eins", b"zw\xc3\xb6lf"], object)),
        (np.array([[b"a"], [b"bc"]]), np.array([[b"a"], [b"bc"]], object)),
    ],
)
def test_arrays_in_the_types_of_an_example(tmp_path: Path, values: np.ndarray, expected: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", x_train=values, y_train=np.arange(2))
    section = NpzSource(path=str(tmp_path / "a.npz"), split="train")
    x, y = open_samples(section).read(LAST)
    assert x.dtype == expected.dtype and x.tolist() == expected[1:].tolist() and y.tolist() == [1]
    kind = "string" if expected.dtype == object else str(expected.dtype)
    shape = {"shape": list(expected.shape[1:])} if expected.ndim > 1 else {}
    assert features_of(section, (x, y)) == {"x": {"dtype": kind, **shape}, "y": {"dtype": "int64"}}


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (np.zeros(2, np.complex64), np.zeros(2), "x_train: expected numbers that fit into float32 or int64.*complex64"),
        (np.zeros(2), np.zeros(2, np.uint64), "y_train: expected numbers that fit into float32 or int64.*uint64"),
        (np.zeros(2), np.zeros(3), "expected as many labels as samples. Received: 2 and 3"),
        (np.zeros((2, 0)), np.zeros(2), r"samples that are not empty. Received: the shape \(0,\) of each"),
    ],
)
def test_arrays_that_no_example_holds(tmp_path: Path, x: np.ndarray, y: np.ndarray, expected: str) -> None:
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y)
    with pytest.raises(DataError, match=expected):
        open_samples(NpzSource(path=str(tmp_path / "a.npz"), split="train"))


def test_rows_and_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,3\n4,5,6\n")
    (tmp_path / "a.txt").write_text("0\tone\n1\ttwo\n")
    csv, text = CsvSource(files=str(tmp_path / "a.csv"), label="y"), TextSource(files=str(tmp_path / "a.txt"))
    rows = open_samples(csv).read(LAST)
    assert [part.tolist() for part in rows] == [[[4, 5]], [6]]
    assert features_of(csv, rows) == {"x": {"dtype": "float32", "shape": [2]}, "y": {"dtype": "float32"}}
    lines = open_samples(text).read(LAST)
    assert [part.tolist() for part in lines] == [[b"two"], [1]]
    assert features_of(text, lines) == {"x": {"dtype": "string"}, "y": {"dtype": "int64"}}
    assert inputs_of(text) == (tmp_path / "a.txt",)


def test_records_need_no_sharding() -> None:
    with pytest.raises(UsageError, match="Received: tfrecord, which needs none"):
        open_samples(TfrecordSource(files="a", parse="a.b"))
