"""Parquet files: the same global batches over 1, 2 and 3 replicas, from any step on, in every shape of `x`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tests.devices.test_data_pipeline import expected_epoch, read_epoch
from tfdist.config.data_sections import ParquetSource
from tfdist.data import from_config
from tfdist.data.format_registry import sample_specs
from tfdist.data.formats.reader_samples import ParquetSamples
from tfdist.data.pipeline import build
from tfdist.data.random_access.parquet_reader import ParquetFeatures, ParquetReader
from tfdist.errors import DataError
from tfdist.order.epoch_span import Position
from tfdist.order.sequential_order import LaneOrder, Lanes
from tfdist.runtime.batches.dataset_description import take_partial_epoch

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

GROUPS = {1: (4, 4, 4, 4, 3), 0: (), 2: (4, 2)}
"""Files -> the rows of their row groups."""


@pytest.fixture
def files(tmp_path: Path) -> str:
    """Rows that are numbered through."""
    first = 0
    for file, groups in GROUPS.items():
        numbers = np.arange(first, first + sum(groups))
        first += len(numbers)
        names = np.array([f"row {number}" for number in numbers], object)
        pairs = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 2)), 2)
        table = pa.table({"a": numbers / 2, "pair": pairs, "name": pa.array(names, pa.string()), "y": numbers})
        pq.write_table(table, tmp_path / f"{'bac'[file]}.parquet", row_group_size=4)
    return str(tmp_path / "*.parquet")


def order(epoch: int, batch_size: int, number: int = 7) -> np.ndarray:
    """The samples of an epoch: the files are read in the order of their names, a.parquet first."""
    counts = (*GROUPS[1], *GROUPS[2])
    return LaneOrder(Lanes(counts, number, 4), batch_size, 3, True).at(epoch, np.arange(25))


@pytest.mark.parametrize(("batch_size", "interleave"), [(8, 64), (10, 3), (100, 1)])
def test_each_epoch_has_the_planned_batches(
    strategy: tf.distribute.Strategy, files: str, batch_size: int, interleave: int
) -> None:
    options: dict[str, Any] = {"shuffle": True, "seed": 3, "strategy": strategy}
    batches = tfdist.data.parquet(files, "y", ["a"], interleave=interleave, batch_size=batch_size, **options)
    for epoch in range(2):
        expected = order(epoch, batch_size, min(interleave, 7))
        assert read_epoch(batches, strategy) == expected_epoch(expected, batch_size, strategy.num_replicas_in_sync)


def test_a_resumed_training_begins_with_the_rest_of_an_epoch(strategy: tf.distribute.Strategy, files: str) -> None:
    reader = ParquetReader(tuple(sorted(Path(files).parent.iterdir())), ParquetFeatures("y", ["a"]))
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 3, "strategy": strategy}
    later = build(ParquetSamples(reader), begin=Position(2, 2), **options)
    rest = take_partial_epoch(later)
    assert rest is not None
    expected = [expected_epoch(order(epoch, 8), 8, strategy.num_replicas_in_sync) for epoch in (2, 3)]
    assert read_epoch(rest.batches(), strategy) == expected[0][2:]
    assert read_epoch(later, strategy) == expected[1]


def test_x_is_a_dict_a_column_or_a_vector(files: str) -> None:
    def first(**keys: Any) -> Any:
        ((x, y),) = list(from_config(ParquetSource(files=files, label="y", interleave=1, **keys), 100)[0])
        assert y.numpy().tolist() == list(range(25))
        return x

    x = first()
    assert sorted(x) == ["a", "name", "pair"] and x["pair"].shape == (25, 2) and x["name"][3] == b"row 3"
    assert first(columns=["a"]).shape == (25,)
    vector = first(columns=["pair", "a"], stack=True)
    assert vector.dtype == tf.float32 and vector.shape == (25, 3) and vector[3].numpy().tolist() == [3, 3, 1.5]
    with pytest.raises(DataError, match="Column name of .* holds texts or bytes, and stack makes one vector"):
        first(stack=True)


def test_a_label_alone_is_no_sample(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has no column besides the label"):
        tfdist.data.parquet(tmp_path / "a.parquet", "y", batch_size=2)


@pytest.mark.parametrize("options", [{"columns": ["a"]}, {"columns": ["a", "pair"], "stack": True}, {}])
def test_footers_say_what_the_batches_are(files: str, options: dict[str, Any]) -> None:
    section = ParquetSource(files=files, label="y", **options)
    specs = sample_specs(section)
    assert specs is not None

    def batched(spec: Any) -> tf.TensorSpec:
        return tf.TensorSpec((None, *spec.shape), spec.dtype)

    x = {name: batched(spec) for name, spec in specs.x.items()} if isinstance(specs.x, dict) else batched(specs.x)
    assert from_config(section, batch_size=4).batches.element_spec == (x, batched(specs.y))
