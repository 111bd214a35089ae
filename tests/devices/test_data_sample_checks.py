"""Samples that are wrong are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfdist.data
from tfdist.config.data_sections import CsvSource
from tfdist.data import from_config
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.ops.record_parser import data_error_in
from tfdist.data.pipeline import build
from tfdist.errors import DataError, UsageError


def failure(batches: Any) -> str:
    with pytest.raises(tf.errors.OpError) as raised:
        list(batches)
    found = data_error_in(raised.value)
    assert isinstance(found, DataError), raised.value
    return str(found)


def test_a_nan_is_named(strategy: tf.distribute.Strategy) -> None:
    x = np.zeros((10, 2, 2))
    x[7, 1, 0] = np.nan
    expected = "the arrays, sample 7: there is a NaN in the sample. Expected numbers, as on_nan: stop says."
    options = {"batch_size": 4, "shuffle": True, "strategy": strategy}
    assert failure(tfdist.data.arrays(x, np.zeros(10), on_nan="stop", **options)) == expected
    assert len(list(tfdist.data.arrays(x, np.zeros(10), **options))) == 3
    assert "sample 7" in failure(tfdist.data.arrays(np.zeros(10), x, on_nan="stop", **options))


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range_is_named(strategy: tf.distribute.Strategy, label: int) -> None:
    y = np.arange(10) % 3
    y[5] = label
    message = failure(tfdist.data.arrays(np.zeros(10), y, batch_size=4, classes=3, strategy=strategy))
    assert message == f"the arrays, sample 5: the label is {label}. Expected an integer from 0 to 2, as classes says."


@pytest.mark.parametrize("label", ["1.7", "-0.5", "nan", "inf"])
def test_a_label_that_is_no_integer_is_named(tmp_path: Path, label: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"a,y\n1,0\n2,1.0\n3,{label}\n")
    message = failure(tfdist.data.csv(path, "y", batch_size=2, classes=3))
    said = str(float(np.float32(label)))
    assert message == f"{path}, line 4: the label is {said}. Expected an integer from 0 to 2, as classes says."


@pytest.mark.parametrize(
    ("y", "received"), [(np.eye(3), r"labels of the shape \(3,\) each"), (np.array(list("abc")), "strings")]
)
def test_labels_that_are_no_single_numbers(y: np.ndarray, received: str) -> None:
    with pytest.raises(UsageError, match=f"classes: expected .* Received: {received}"):
        tfdist.data.arrays(np.zeros(3), y, batch_size=1, classes=3)


def test_a_config_asks_for_the_look(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\nnan,1\n")
    section = CsvSource(files=str(path), label="y", on_nan="stop")
    assert failure(from_config(section, batch_size=2)[0]).startswith(f"{path}, line 3: there is a NaN")
    section = CsvSource(files=str(path), label="y", classes=1)
    assert failure(from_config(section, batch_size=2)[0]).startswith(f"{path}, line 3: the label is 1")


@pytest.mark.parametrize(("option", "value"), [("on_nan", "skip"), ("classes", 0), ("classes", "10"), ("classes", 2.0)])
def test_impossible_expectations(option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{option}: expected"):
        build(ArraySamples(np.zeros(1)), batch_size=1, **{option: value})


def test_classes_without_labels() -> None:
    with pytest.raises(UsageError, match=r"classes: expected samples \(x, y\)"):
        tfdist.data.arrays(np.zeros(3), batch_size=1, classes=2)
