from __future__ import annotations

import contextlib
import logging
import random
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from tfdist.rundir import RunDir
from tfdist.training.results import model_keeper
from tfdist.training.results.model_keeper import ModelKeeper


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

    monkeypatch.setattr(model_keeper.keras.saving, "save_model", save)
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
