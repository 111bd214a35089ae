from __future__ import annotations

import contextlib
import json
import logging
import random
import threading
import time
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from tfdist.launch.run_dir.epoch_metrics import read_metrics
from tfdist.rundir import RunDir
from tfdist.rundir.bounded_disk import BoundedDisk
from tfdist.training import script_results
from tfdist.training.script_results import ModelKeeper, ScriptRecordCallback


def model_of(units: int) -> keras.Model:
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
    made.compile("sgd", "mse")
    return made


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path)


def keeper_of(run: RunDir, now: list[float]) -> ModelKeeper:
    return ModelKeeper(run, tf.distribute.get_strategy(), contextlib.nullcontext, lambda: now[0])


def units_in(run: RunDir) -> int:
    return int(keras.saving.load_model(run.model_file).layers[-1].units)


def test_the_last_model_is_saved_and_leaves_no_trace(run: RunDir) -> None:
    model, state = model_of(3), random.getstate()
    before = int(keras.layers.Layer().name.partition("_")[2] or 0)
    keeper_of(run, [0.0]).keep(model)
    assert int(keras.layers.Layer().name.partition("_")[2]) == before + 1
    assert random.getstate() == state
    assert units_in(run) == 3


def test_fits_that_are_short_are_saved_later(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    keeper, saved = keeper_of(run, now), []

    def save(model: keras.Model, path: Path) -> None:
        saved.append(model.layers[-1].units)
        now[0] += 1.0

    monkeypatch.setattr(script_results.keras.saving, "save_model", save)
    for units in range(1, 50):
        now[0] += 1.0
        keeper.keep(model_of(units))
    assert saved == [1, 19, 38]
    keeper.finish(together=True)
    keeper.finish(together=True)
    assert saved == [1, 19, 38, 49]


class WithFunction(keras.Model):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function
        self.dense = keras.layers.Dense(1)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.dense(inputs)


def test_a_model_without_a_config_leaves_its_weights(run: RunDir, caplog: pytest.LogCaptureFixture) -> None:
    keeper = keeper_of(run, [0.0])
    keeper.keep(model_of(3))
    model = WithFunction(lambda: None)
    model(tf.zeros((1, 2)))
    model.compile("sgd", "mse")
    with caplog.at_level(logging.WARNING, "tfdist"):
        keeper.keep(model)
    [line] = caplog.messages
    assert "as a whole, and its weights are in" in line and "\n" not in line
    assert run.weights_file.exists() and not run.model_file.exists()
    keeper.keep(model_of(4))
    assert not run.weights_file.exists() and units_in(run) == 4


def test_a_directory_that_is_gone_ends_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tfdist"):
        keeper_of(RunDir(tmp_path / "gone"), [0.0]).keep(model_of(3))
    [line] = caplog.messages
    assert "is not saved: " in line and "The run goes on without it." in line


def test_epochs_are_counted_on_from_fit_to_fit(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    record = ScriptRecordCallback(run)
    for fit, losses in ((1, [3.0, 2.0]), (2, [1.0])):
        record.fit = fit
        for epoch, loss in enumerate(losses):
            record.on_epoch_end(epoch, {"loss": loss})
        record.on_train_end()
    record.finish()
    assert json.loads(run.history_file.read_text()) == {"loss": [3.0, 2.0, 1.0]}
    # As those read it that read the record of a config.
    assert [(one.epoch, dict(one.values)) for one in read_metrics(run.metrics_file)] == [
        (0, {"loss": 3.0}),
        (1, {"loss": 2.0}),
        (2, {"loss": 1.0}),
    ]
    resumed = ScriptRecordCallback(run)
    resumed.restore(record.state)
    assert resumed.epochs == 3


def test_many_short_epochs_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(script_results.time, "monotonic", lambda: now[0])
    written: list[int] = []
    record = ScriptRecordCallback(RunDir(tmp_path))

    def write(self: object) -> None:
        written.append(record.epochs)
        now[0] += 1.0

    monkeypatch.setattr(script_results.RunRecordCallback, "write", write)
    for epoch in range(120):
        record.on_epoch_end(epoch, {"loss": 1.0})
        now[0] += 1.0
    assert written == [1, 51, 101]
    record.finish()
    record.finish()
    assert written == [1, 51, 101, 120]


def test_a_disk_that_does_not_answer_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr(script_results, "BoundedDisk", lambda place: BoundedDisk(place, 0.1))
    monkeypatch.setattr(script_results.RunRecordCallback, "write", lambda self: answers.wait(30))
    record = ScriptRecordCallback(RunDir(tmp_path))
    begun = time.monotonic()
    for epoch in range(20):
        record.on_epoch_end(epoch, {"loss": 1.0})
    assert record.epochs == 20 and time.monotonic() - begun < 10
    answers.set()
