"""What is written in each format, read again by what reads such files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from tfdist.config.data_sections import FeatureConfig, TfrecordSource
from tfdist.data.formats.csv_files import CsvReader
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.errors import DataError, UsageError
from tfdist.training.inference.outputs.output_formats import OutputColumn, column_of, output_format

RNG = np.random.default_rng(1)
SAMPLES = 13
TEXTS = np.empty(SAMPLES, np.object_)
TEXTS[:] = [f"é,\n{'x' * number}".encode() for number in range(SAMPLES)]
OUTPUTS = {
    "p": np.concatenate([RNG.normal(size=[SAMPLES - 1, 2, 3]), np.full([1, 2, 3], np.nan)]).astype(np.float32),
    "double": RNG.normal(size=SAMPLES),
    "best": RNG.integers(-5, 5, SAMPLES).astype(np.int32),
    "flag": RNG.integers(0, 2, SAMPLES).astype(bool),
    "name": TEXTS,
}
COLUMNS = [column_of(name, array) for name, array in OUTPUTS.items()]
NAMES = ["npz", "tfrecord", "csv", "parquet"]


def written(name: str, path: Path, outputs: dict[str, NDArray] = OUTPUTS, *cuts: int) -> bytes:
    columns = [column_of(output, array) for output, array in outputs.items()]
    rows = len(next(iter(outputs.values())))

    def blocks() -> Iterator[tuple[int, list[NDArray]]]:
        for start, stop in zip([0, *cuts], [*cuts, rows], strict=True):
            yield start, [array[start:stop] for array in outputs.values()]

    chosen = output_format(name)
    chosen.check(columns)
    chosen.write(path, columns, rows, blocks)
    return path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bytes_however_they_lie_in_parts(name: str, tmp_path: Path) -> None:
    whole = written(name, tmp_path / "a")
    assert written(name, tmp_path / "b", OUTPUTS, 1, 5, 12) == whole


def test_npz(tmp_path: Path) -> None:
    written("npz", tmp_path / "a.npz", OUTPUTS, 5)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert found["index"].tolist() == list(range(SAMPLES))
        for name, expected in OUTPUTS.items():
            if name == "name":
                assert found[name].tolist() == TEXTS.tolist()
            else:
                np.testing.assert_array_equal(found[name], expected)
                assert found[name].dtype == expected.dtype


def test_csv(tmp_path: Path) -> None:
    written("csv", tmp_path / "a.csv", OUTPUTS, 5)
    with (tmp_path / "a.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    places = [f"p_{row}_{column}" for row in range(2) for column in range(3)]
    assert header == ["index", *places, "double", "best", "flag", "name"]
    assert [row[-1].encode() for row in rows] == TEXTS.tolist()
    numbers = np.array([row[:-1] for row in rows], np.float64)
    np.testing.assert_array_equal(numbers[:, 1:7].astype(np.float32), OUTPUTS["p"].reshape(SAMPLES, 6))
    np.testing.assert_array_equal(numbers[:, 7], OUTPUTS["double"])
    assert numbers[:, 0].tolist() == list(range(SAMPLES)) and rows[0][9] in ("0", "1")


def test_tfdists_own_reader_of_csv(tmp_path: Path) -> None:
    outputs = {"p": OUTPUTS["p"][:-1].reshape(-1, 6)}
    written("csv", tmp_path / "a.csv", outputs)
    x, y = CsvReader((tmp_path / "a.csv",), "index", None).read(np.arange(SAMPLES - 1))
    np.testing.assert_array_equal(x, outputs["p"])
    assert y.tolist() == list(range(SAMPLES - 1))


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "tfdist.training.inference.outputs.parquet_output"
    monkeypatch.setattr(f"{module}._GROUP_ROWS", 4)
    written("parquet", tmp_path / "a.parquet", OUTPUTS, 2, 11)
    assert pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").num_row_groups == 4
    found = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert found["name"].to_pylist() == [text.decode() for text in TEXTS]
    assert found["best"].to_pylist() == OUTPUTS["best"].tolist() and found["double"].to_pylist() == [*OUTPUTS["double"]]
    reader = ParquetReader((tmp_path / "a.parquet",), ParquetFeatures("index", ["p"], {"p": [2, 3]}), 1)
    x, y = reader.read(np.arange(SAMPLES))
    np.testing.assert_array_equal(x, OUTPUTS["p"])
    assert y.tolist() == list(range(SAMPLES))


def test_texts_that_are_no_utf8(tmp_path: Path) -> None:
    outputs = {"name": np.array([b"\xff", b"a"], np.object_)}
    written("parquet", tmp_path / "a.parquet", outputs)
    assert pyarrow.parquet.read_table(tmp_path / "a.parquet")["name"].to_pylist() == [b"\xff", b"a"]
    with pytest.raises(DataError, match=r"'name' of sample 0 is no text in UTF-8.*--format"):
        written("csv", tmp_path / "a.csv", outputs)


def test_tfrecord_is_what_a_config_reads(tmp_path: Path) -> None:
    from tfdist.data.formats import tfrecord_files

    path = tmp_path / "a.tfrecord"
    written("tfrecord", path, OUTPUTS, 5)
    notes = output_format("tfrecord").notes(path, COLUMNS)
    assert notes[0] == "float64 is float32 in a TFRecord file: double"
    assert "      p: {dtype: float32, shape: [2, 3]}\n" in notes[1] and notes[1].endswith("label: index")
    features = {
        "index": FeatureConfig(dtype="int64"),
        "p": FeatureConfig(dtype="float32", shape=[2, 3]),
        "best": FeatureConfig(dtype="int64"),
        "name": FeatureConfig(dtype="string"),
    }
    section = TfrecordSource(files=str(path), features=features, label="index")
    assert len(tfrecord_files.open_source(section, "data.train")) == SAMPLES


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("tfrecord", OutputColumn("a", "uint64"), "Received: the output a uint64"),
        ("tfrecord", OutputColumn("a", "float32", (0,)), "at least one value each"),
        ("csv", OutputColumn("a", "float32", (1000, 1000)), "1,000,000 are too many"),
        ("npz", OutputColumn("a/b", "float32"), "without /"),
    ],
)
def test_outputs_that_a_format_does_not_have(name: str, column: OutputColumn, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        output_format(name).check([column])


def test_two_columns_of_one_name() -> None:
    with pytest.raises(UsageError, match="columns called a_0"):
        output_format("csv").check([OutputColumn("a", "float32", (2,)), OutputColumn("a_0", "float32")])
