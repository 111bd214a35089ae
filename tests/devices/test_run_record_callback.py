"""The record of a run: metrics, history and TensorBoard's events, whole after every epoch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.table import classifier, numbers
from tfdist.errors import RunDirError
from tfdist.rundir import RunDir
from tfdist.training.run_record_callback import EventFile, RunRecordCallback


def fit(run: RunDir, epochs: int) -> dict[str, list[float]]:
    x, y = numbers(20)
    model = classifier()
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(
        x.astype("float32"), y, epochs=epochs, validation_split=0.5, callbacks=[RunRecordCallback(run)], verbose=0
    )
    return history.history


def test_record(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    expected = fit(run, epochs=3)
    written = json.loads(run.history_file.read_text())
    assert written.keys() == expected.keys()
    assert all(written[name] == pytest.approx(values) for name, values in expected.items())
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2]
    assert [line["val_loss"] for line in lines] == pytest.approx(expected["val_loss"])


def test_events_have_keras_names(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    expected = fit(run, epochs=2)
    for folder, prefix in (("train", ""), ("validation", "val_")):
        (file,) = (run.events_dir / folder).iterdir()
        values: dict[str, list[float]] = {}
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                values.setdefault(value.tag, []).append(value.simple_value)
        assert values["epoch_loss"] == pytest.approx(expected[f"{prefix}loss"])
        assert values["epoch_accuracy"] == pytest.approx(expected[f"{prefix}accuracy"])


def test_a_disk_that_takes_nothing_ends_no_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = RunDir(tmp_path / "gone")
    record = RunRecordCallback(run)
    record.on_epoch_end(0, {"loss": 0.5})
    assert "The record of epoch 1 is not written. The training continues without it." in caplog.text
    run.path.mkdir()
    run.events_dir.write_text("in the way")
    record.on_epoch_end(1, {"loss": 0.25})
    assert str(run.events_dir) in caplog.records[-1].message
    run.events_dir.unlink()
    record.on_epoch_end(2, {"loss": 0.125})
    record.on_train_end()
    assert len(caplog.records) == 2
    assert json.loads(run.history_file.read_text()) == {"loss": [0.5, 0.25, 0.125]}
    assert len(run.metrics_file.read_text().splitlines()) == 3
    assert len(list((run.events_dir / "train").iterdir())) == 1


def test_events_that_may_be_cut_short_are_followed_by_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes behind half a record of a file is read by nobody."""
    run = RunDir(tmp_path)
    record = RunRecordCallback(run)
    record.on_epoch_end(0, {"loss": 0.5})

    def fail(self: EventFile, step: int, values: dict[str, float]) -> None:
        raise RunDirError("The disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(EventFile, "add", fail)
        record.on_epoch_end(1, {"loss": 0.25})
    record.on_epoch_end(2, {"loss": 0.125})
    record.on_train_end()
    assert len(list((run.events_dir / "train").iterdir())) == 2


def test_a_metric_with_several_values_is_recorded_one_by_one(tmp_path: Path) -> None:
    record = RunRecordCallback(RunDir(tmp_path))
    record.on_epoch_end(0, {"loss": 0.1, "f1_score": np.array([0.5, 1.0], np.float32)})
    assert record.history == {"loss": [0.1], "f1_score[0]": [0.5], "f1_score[1]": [1.0]}
