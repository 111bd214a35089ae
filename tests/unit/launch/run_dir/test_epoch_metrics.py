from __future__ import annotations

import math
from pathlib import Path

import pytest

from tfdist.launch.run_dir.epoch_metrics import EpochMetrics, last_metrics, metrics_text, read_metrics

FIRST = '{"epoch": 0, "time": 5.5, "accuracy": 0.5, "loss": 2, "val_accuracy": 0.25, "val_loss": 3.0}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_the_epochs_in_order_the_loss_first_and_the_validation_last(file: Path) -> None:
    file.write_text(FIRST + "\n" + '{"epoch": 1, "loss": NaN}\n')
    first, second = read_metrics(file)
    assert (first.epoch, first.time) == (0, 5.5)
    assert list(first.values.items()) == [("loss", 2.0), ("accuracy", 0.5), ("val_loss", 3.0), ("val_accuracy", 0.25)]
    assert (second.epoch, second.time) == (1, None) and math.isnan(second.values["loss"])
    assert last_metrics(file) is not None and last_metrics(file).epoch == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("time", ["NaN", "Infinity", "1e999", "null", "[]"])
def test_a_time_that_is_none(file: Path, time: str) -> None:
    file.write_text(f'{{"epoch": 0, "loss": 1, "time": {time}}}')
    assert last_metrics(file) == EpochMetrics(0, None, {"loss": 1.0})


def test_no_file(file: Path) -> None:
    assert read_metrics(file) == () and last_metrics(file) is None
    file.mkdir()
    assert read_metrics(file) == () and last_metrics(file) is None


def test_what_is_no_epoch_is_left_out(file: Path) -> None:
    lines = ["", "{", "[]", "3", "null", '{"loss": 1}', '{"epoch": -1}', '{"epoch": "0"}', '{"epoch": true}', "\x00"]
    whole = '{"epoch": 7, "time": "now", "fit": 2, "loss": 1, "name": "a", "flag": true, "list": [1]}'
    file.write_text("\n".join([*lines, whole, '{"epoch": 8, "lo']))
    assert read_metrics(file) == (EpochMetrics(7, None, {"loss": 1.0}),)
    assert last_metrics(file) == EpochMetrics(7, None, {"loss": 1.0})


def test_only_the_end_of_a_long_file_is_read_for_the_last(file: Path) -> None:
    file.write_text("".join(f'{{"epoch": {epoch}, "loss": {epoch}.5}}\n' for epoch in range(20_000)))
    assert len(read_metrics(file)) == 20_000
    assert last_metrics(file) == EpochMetrics(19_999, None, {"loss": 19_999.5})


def test_in_words() -> None:
    metrics = EpochMetrics(0, None, {"loss": 0.139214, "a": math.nan, "b": 1e-9, "c": 12345.678})
    assert metrics_text(metrics, 4) == "loss 0.1392  a nan  b 1e-09  c 1.235e+04"
    assert metrics_text(metrics, 2) == "loss 0.1392  a nan  and 2 more"
