"""Keras's callbacks on several devices of one process do what they do on one; which callbacks may decide what."""

from __future__ import annotations

import copy
import csv
import functools
import importlib.util
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.callback_cases import StopsAt
from tests.exactness.comparison import assert_same
from tests.exactness.later_classes import has
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist import on_chief, on_every_worker
from tfdist.errors import UsageError
from tfdist.keras_repairs.callbacks import backup_and_restore
from tfdist.keras_repairs.callbacks.callback_placement import runs_here
from tfdist.keras_repairs.callbacks.chief_decisions import DecisionPoints

pytestmark = pytest.mark.usefixtures("repaired")

ROUNDING = 1e-4
"""In float32, after some steps of Adam."""

SAMPLES, BATCH, EPOCHS = 41, 8, 5
callbacks = keras.callbacks


class Interrupted(Exception):
    pass


class InterruptsAt(callbacks.Callback):
    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == self.epoch:
            raise Interrupted


@functools.cache
def built(replicas: int) -> tuple[keras.Model, list[tuple[keras.Variable, np.ndarray]]]:
    """A model under the current strategy, which has so many replicas, and the values that its variables begin with."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    model.optimizer.build(model.trainable_variables)
    return model, [(variable, variable.numpy()) for variable in (*model.variables, *model.optimizer.variables)]


def as_built() -> keras.Model:
    """One model for all cases, as it was built: a new one would be traced anew."""
    model, at_first = built(tf.distribute.get_strategy().num_replicas_in_sync)
    for variable, value in at_first:
        variable.assign(value)
    model._initial_epoch = None  # what an earlier BackupAndRestore left
    return model


def fit(*given: Any, nan_at: int | None = None) -> dict[str, Any]:
    x = np.random.default_rng(1).normal(size=(SAMPLES, 3)).astype("float32")
    y = (x @ [[1.0], [2.0], [-1.0]]).astype("float32")
    if nan_at is not None:
        x[nan_at] = np.nan
    model = as_built()
    history = model.fit(
        x, y, batch_size=BATCH, epochs=EPOCHS, callbacks=list(given), shuffle=False, validation_split=0.2, verbose=0
    )
    return {
        "history": history.history,
        "weights": [weight.tolist() for weight in model.get_weights()],
        "iterations": int(model.optimizer.iterations.numpy()),
        "rate": float(model.optimizer.learning_rate.numpy()),
    }


def stopping_at_nan() -> dict[str, Any]:
    # The last sample of the second batch is the last replica's.
    return {"iterations": fit(callbacks.TerminateOnNaN(), nan_at=2 * BATCH - 1)["iterations"]}


def raising_at_nan() -> dict[str, Any]:
    with pytest.raises(RuntimeError, match="batch 1"):
        fit(callbacks.TerminateOnNaN(raise_error=True), nan_at=2 * BATCH - 1)
    return {}


def best_weights() -> dict[str, Any]:
    stopping = callbacks.EarlyStopping("loss", patience=1, min_delta=1.0, restore_best_weights=True)
    result = fit(stopping)
    assert stopping.stopped_epoch > stopping.best_epoch
    return result


def resumed() -> dict[str, Any]:
    folder = Path("backup")
    with pytest.raises(Interrupted):
        fit(callbacks.BackupAndRestore(folder), InterruptsAt(3))
    assert sorted(path.name for path in folder.iterdir()) == ["latest.weights.h5", "training_metadata.json"]
    result = fit(callbacks.BackupAndRestore(folder))
    assert len(result["history"]["loss"]) == EPOCHS - 3
    assert not folder.exists()
    return result


def written() -> dict[str, Any]:
    checkpoint = callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True, save_freq=7)
    best = callbacks.ModelCheckpoint("best.keras", save_best_only=True)
    result = fit(callbacks.CSVLogger("log.csv"), checkpoint, best)
    lines = csv.DictReader(Path("log.csv").read_text().splitlines())
    rows = [{name: float(value) for name, value in line.items()} for line in lines]
    names = sorted(path.name for path in Path().iterdir())
    return {**result, "rows": rows, "best": float(best.best), "names": [list(name.encode()) for name in names]}


CASES = {
    "a callback of one's own": lambda: fit(StopsAt(8)),
    "LambdaCallback": lambda: fit(callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(more=epoch))),
    "LearningRateScheduler": lambda: fit(callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)),
    "ReduceLROnPlateau": lambda: fit(callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)),
    "TerminateOnNaN": stopping_at_nan,
    "TerminateOnNaN that raises": raising_at_nan,
    "EarlyStopping": best_weights,
    "BackupAndRestore": resumed,
    "CSVLogger and ModelCheckpoint": written,
}
if not has("callbacks.TerminateOnNaN(raise_error=True)"):
    del CASES["TerminateOnNaN that raises"]

BY_WORKERS = {"LearningRateScheduler", "ReduceLROnPlateau", "EarlyStopping"}
"""What the default tests compare on workers."""


@functools.cache
def of_one_replica(name: str) -> dict[str, Any]:
    return CASES[name]()


@pytest.mark.parametrize("replicas", [2, slow(3)])
@pytest.mark.parametrize("name", [slow(name) if name in BY_WORKERS else name for name in CASES])
def test_as_on_one_device(name: str, replicas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "several").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    expected = of_one_replica(name)
    monkeypatch.chdir(tmp_path / "several")
    with mirrored(replicas).scope():
        assert_same(expected, CASES[name](), name, ROUNDING)


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="tensorboard is installed")
def test_a_board_without_its_package_is_refused_before_the_first_step(tmp_path: Path) -> None:
    steps = StopsAt(0)
    with mirrored(2).scope(), pytest.raises(UsageError, match="pip install tensorboard"):
        fit(callbacks.TensorBoard(tmp_path), steps)
    assert steps.left == 0


class Quiet(callbacks.EarlyStopping):
    """A user's class that leaves the methods of batches to Keras."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.stop_training = True


class OldName(callbacks.Callback):
    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.model.stop_training = True


class Evaluating(callbacks.Callback):
    def on_test_begin(self, logs: Any = None) -> None:
        self.model.stop_evaluating = True


def asynchronous() -> callbacks.Callback:
    callback = StopsAt(3)
    callback.async_safe = True
    return callback


def of_library(name: str, module: str, base: type[callbacks.Callback] = StopsAt) -> type[callbacks.Callback]:
    """A class of that name, as if the library were installed."""
    return type(name, (base,), {"__module__": module})


MetricsLogger = of_library("WandbMetricsLogger", "wandb.integration.keras.callbacks.metrics_logger")
ModelLogger = of_library("WandbModelCheckpoint", "wandb.integration.keras.callbacks", callbacks.ModelCheckpoint)
Tracking = of_library("MlflowCallback", "mlflow.keras.callback")
Bars = of_library("TqdmCallback", "tqdm.keras")
Plots = of_library("PlotLossesCallback", "livelossplot.inputs.tf_keras")
Live = of_library("DVCLiveCallback", "dvclive.keras")
Neptune = of_library("NeptuneCallback", "neptune_tensorflow_keras.impl")


WATCHED = {"batches": True, "train_logs": True}


@pytest.mark.parametrize(
    ("given", "watch"),
    [
        ([], DecisionPoints()),
        (
            [callbacks.ModelCheckpoint("x.keras", save_freq=3), callbacks.CSVLogger("x"), callbacks.History()],
            DecisionPoints(**WATCHED),
        ),
        ([Quiet()], DecisionPoints()),  # epochs are shared always
        ([StopsAt(3)], DecisionPoints(train=True, **WATCHED)),
        ([OldName()], DecisionPoints(train=True, begins=True, **WATCHED)),
        ([MetricsLogger(3), ModelLogger("x.keras"), Tracking(3)], DecisionPoints(**WATCHED)),
        ([Bars(3), Plots(3), Live(3), Neptune(3)], DecisionPoints(**WATCHED)),
        ([of_library("Users", "script", MetricsLogger)(3)], DecisionPoints(train=True, **WATCHED)),
        ([asynchronous()], DecisionPoints(**WATCHED)),  # Keras may tell it of a batch too late to stop anything
        ([callbacks.LambdaCallback(on_epoch_end=print)], DecisionPoints()),
        ([callbacks.LambdaCallback(on_train_batch_begin=print)], DecisionPoints(train=True, begins=True, **WATCHED)),
        ([callbacks.LambdaCallback(on_test_batch_end=print)], DecisionPoints(test=True, test_logs=True)),
        ([callbacks.ProgbarLogger()], DecisionPoints(train_logs=True)),
        ([Evaluating()], DecisionPoints(test=True)),
        ([callbacks.LambdaCallback(on_predict_batch_end=print)], DecisionPoints(predict=True)),
        ([callbacks.TerminateOnNaN()], DecisionPoints(train=True, **WATCHED)),
        ([callbacks.EarlyStopping()], DecisionPoints()),
        ([callbacks.EarlyStopping(restore_best_weights=True)], DecisionPoints(best=True)),
        ([callbacks.BackupAndRestore("x")], DecisionPoints(backups=1)),
    ],
)
def test_what_is_watched(given: list[Any], watch: DecisionPoints) -> None:
    assert DecisionPoints.of(given) == watch
    assert DecisionPoints.of_row(watch.to_row()) == watch
    assert DecisionPoints.of_any([DecisionPoints(), watch]) == watch


@pytest.mark.parametrize(
    ("callback", "elsewhere"),
    [
        (StopsAt(1), True),
        (callbacks.CSVLogger("x"), False),
        (on_every_worker(callbacks.CSVLogger("x")), True),
        (on_chief(callbacks.CSVLogger("x")), False),
        (on_chief(StopsAt(1)), False),
        (callbacks.RemoteMonitor(), False),
        (callbacks.ModelCheckpoint("x.keras"), True),
        (MetricsLogger(1), False),
        (ModelLogger("x.keras"), False),
        (Tracking(1), False),
        (Bars(1), False),
        (Plots(1), False),
        (Live(1), False),
        (on_every_worker(Tracking(1)), True),
        (of_library("Users", "script", MetricsLogger)(1), True),
        (of_library("WandbMetricsLogger", "script")(1), True),
    ],
)
def test_where_a_callback_runs(callback: Any, elsewhere: bool) -> None:
    assert runs_here(callback, is_chief=True)
    assert runs_here(callback, is_chief=False) == elsewhere
    # Tuners give copies to `fit`.
    assert runs_here(copy.deepcopy(callback), is_chief=False) == elsewhere


@pytest.mark.parametrize("mark", [on_chief, on_every_worker])
@pytest.mark.parametrize("received", [None, callbacks.Callback, [StopsAt(1)]])
def test_only_callbacks_are_marked(mark: Any, received: Any) -> None:
    with pytest.raises(UsageError, match="takes one keras.callbacks.Callback"):
        mark(received)


@pytest.mark.parametrize("callback", [callbacks.BackupAndRestore("x"), callbacks.SwapEMAWeights()])
def test_what_changes_weights_belongs_on_every_worker(callback: Any) -> None:
    assert on_every_worker(callback) is callback
    with pytest.raises(UsageError, match="belongs on every worker"):
        on_chief(callback)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_chief_alone_deletes_a_backup(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others on its file system might do so while it is still wanted."""
    monkeypatch.setattr(backup_and_restore, "worker_count", lambda strategy: 2)
    monkeypatch.setattr(backup_and_restore, "worker_rank", lambda strategy: rank)
    callback = callbacks.BackupAndRestore(tmp_path)
    callback.set_model(keras.Sequential([keras.layers.Dense(1)]))
    callback.on_train_end()
    assert tmp_path.exists() == (rank != 0)
