"""A training that ends anywhere and resumes from its checkpoint in another `fit`, on as many devices or on others."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.checkpoint import CheckpointManager, CheckpointSummary, RetentionPolicy, SavePolicy
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.checkpoint.checkpoint_manager import variables_of
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.pipeline import build
from tfdist.errors import RunDirError
from tfdist.keras_repairs.base.replica_copies import copies
from tfdist.keras_repairs.files import training_state
from tfdist.keras_repairs.inputs.epoch_iterator import BatchIterator
from tfdist.keras_repairs.loop import multi_step_execution
from tfdist.order.epoch_span import START
from tfdist.training.checkpoints.checkpoint_callback import CheckpointCallback

pytestmark = pytest.mark.usefixtures("repaired")

SAMPLES, BATCH, EPOCHS = 45, 6, 3
STEPS = -(-SAMPLES // BATCH)


class Ended(Exception):
    """Ends a `fit` as a kill would, but leaves this process alive."""


@keras.saving.register_keras_serializable("tests")
class Largest(keras.metrics.Metric):
    """No sum over samples: the largest prediction so far."""

    def __init__(self, name: str = "largest") -> None:
        super().__init__(name=name)
        self.value = self.add_weight(initializer="zeros", name="value")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(keras.ops.maximum(self.value, keras.ops.max(y_pred)))

    def result(self) -> Any:
        # A number of its own: Keras would show the variable itself, as the evaluation leaves it.
        return self.value + 0.0


def accumulating() -> Any:
    return keras.optimizers.Adam(0.01, gradient_accumulation_steps=3, use_ema=True, ema_overwrite_frequency=2)


def scaled() -> Any:
    inner = keras.optimizers.SGD(0.05, momentum=0.9)
    return keras.optimizers.LossScaleOptimizer(inner, initial_scale=64.0, dynamic_growth_steps=5)


def scheduled() -> Any:
    return keras.optimizers.RMSprop(keras.optimizers.schedules.ExponentialDecay(0.02, 4, 0.8), momentum=0.5)


class NoiseOfAGenerator(keras.layers.Layer):
    """Draws by a generator of TensorFlow's."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = tf.random.Generator.from_seed(5)

    def call(self, x: Any) -> Any:
        return x + self.generator.normal(tf.shape(x))


class Ends(keras.callbacks.Callback):
    """Saves and ends the training at the k-th call of one of the callbacks' methods, and so makes steps run singly."""

    def __init__(self, keeper: CheckpointCallback, method: str, call: int) -> None:
        super().__init__()
        self.keeper, self.left, self.said = keeper, call, ""
        setattr(self, method, self.count)

    def count(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.said = str(self.keeper.save_now())
            raise Ended


@dataclass
class Run:
    """One training, in as many `fit`s as it takes; `plain` without batch statistics and chance, which take to trace."""

    folder: Path
    make: Callable[[], Any] = accumulating
    plain: bool = False
    every: int | None = None
    seconds: float | None = None
    keep: int = 2
    epochs: int = EPOCHS
    model: Any = None
    history: Any = None
    said: str = ""

    def fit(self, strategy: tf.distribute.Strategy, end: tuple[str, int] | None = None) -> None:
        """Trains from the latest checkpoint; with `end` until then."""
        keras.utils.set_random_seed(3)
        checkpoints = CheckpointManager(self.folder, RetentionPolicy(self.keep), strategy)
        found = checkpoints.latest()
        resumed = None if found is None else found[0]
        begin = START if resumed is None else resumed.position
        generator = np.random.default_rng(1)
        x = generator.normal(size=(SAMPLES, 5)).astype(np.float32)
        y = x[:, :3].argmax(axis=1)
        with strategy.scope():
            data = build(ArraySamples(x, y), batch_size=BATCH, shuffle=True, seed=4, strategy=strategy, begin=begin)
            test = build(ArraySamples(x[:20], y[:20]), batch_size=BATCH, strategy=strategy)
            self.model = self._model()
        if resumed is not None:
            training_state.build(self.model, data)
        self.history = {} if resumed is None else dict(resumed.record)
        replicas = strategy.num_replicas_in_sync
        facts = CheckpointSummary(0, 0, 0, 4, BATCH, SAMPLES, 1, replicas, 0.0, (), {}, {}, {}, {})
        policy = SavePolicy(self.every, self.seconds)
        keeper = CheckpointCallback(checkpoints, policy, facts, STEPS, lambda: self.history, resumed, strategy)
        callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=self._record), keeper]
        callbacks += [Ends(keeper, *end)] if end else []
        try:
            self.model.fit(data, validation_data=test, initial_epoch=begin.epoch, epochs=self.epochs, verbose=0,
                           callbacks=callbacks, shuffle=False)  # fmt: skip
        except Ended:
            self.said = callbacks[-1].said

    def _model(self) -> keras.Model:
        extra = [] if self.plain else [keras.layers.BatchNormalization(), keras.layers.Dropout(0.4)]
        if extra and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            extra.append(keras.layers.Lambda(lambda x: x + tf.random.normal(tf.shape(x))))
            extra.append(NoiseOfAGenerator())
        # Without a shape: the first batch builds it, or the process that is to restore it.
        model = keras.Sequential([keras.layers.Dense(8), *extra, keras.layers.Dense(3, activation="softmax")])
        metrics = ["accuracy", tfdist.gathered(Largest())]
        model.compile(self.make(), "sparse_categorical_crossentropy", metrics=metrics)
        return model

    def _record(self, epoch: int, logs: Any) -> None:
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))

    @property
    def values(self) -> list[bytes]:
        """Every byte of the model and the optimizer, on every replica."""
        variables = [*self.model.variables, *self.model.optimizer.variables]
        return [b"".join(copy.numpy().tobytes() for copy in copies(variable)) for variable in variables]


def strategy_of(replicas: int) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy() if replicas == 1 else mirrored(replicas)


@pytest.mark.parametrize(
    ("make", "replicas", "end", "said"),
    [
        (accumulating, 2, ("on_train_batch_end", STEPS + 4), "step 12 (epoch 2, 4 of 8 batches)"),
        slow(scheduled, 1, ("on_train_batch_begin", 6), "step 5 (epoch 1, 5 of 8 batches)"),
        slow(scheduled, 1, ("on_train_batch_end", STEPS), "step 8 (epoch 1, 8 of 8 batches)"),
        slow(scaled, 2, ("on_test_batch_end", 6), "step 16 (epoch 2, 8 of 8 batches)"),
        slow(scaled, 2, ("on_epoch_end", 2), "step 16 (epoch 3, 0 of 8 batches)"),
    ],
    ids=["in an epoch", "before a batch", "after the last batch", "in an evaluation", "after an epoch"],
)
def test_every_bit_is_that_of_a_training_without_an_end(
    make: Callable[[], Any], end: tuple[str, int], said: str, replicas: int, tmp_path: Path
) -> None:
    strategy = strategy_of(replicas)
    whole = Run(tmp_path / "whole", make)
    whole.fit(strategy)
    ended = Run(tmp_path / "ended", make)
    ended.fit(strategy, end)
    assert ended.said == f"{said} in {tmp_path / 'ended'}"
    ended.fit(strategy)
    assert ended.history == whole.history
    assert len(ended.history["val_accuracy"]) == EPOCHS
    assert ended.values == whole.values


@pytest.mark.slow
def test_on_other_devices_only_rounding_differs(tmp_path: Path) -> None:
    """Within an epoch and between two updates of the weights: metrics and gradients of all replicas go on."""
    whole = Run(tmp_path / "whole", plain=True)
    whole.fit(strategy_of(1))
    ended = Run(tmp_path / "ended", plain=True)
    for replicas, call in ((3, STEPS + 4), (1, 3), (2, 5)):
        ended.fit(strategy_of(replicas), ("on_train_batch_end", call))
    ended.fit(strategy_of(3))
    assert ended.history.keys() == whole.history.keys()
    for name, values in whole.history.items():
        np.testing.assert_allclose(ended.history[name], values, rtol=2e-5, err_msg=name)
    for mine, expected in zip(ended.model.get_weights(), whole.model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("replicas", [slow(1), 2])
def test_it_saves_at_just_the_steps_asked_for(replicas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several steps run in one execution, too: it ends with the one to be saved."""
    monkeypatch.setattr(multi_step_execution, "steps_at_once", lambda seconds: 64)
    monkeypatch.setattr(multi_step_execution, "CHEAP", float("inf"))
    executed = []
    take = BatchIterator.take
    monkeypatch.setattr(BatchIterator, "take", lambda feed, n: executed.append(n) or take(feed, n))
    run = Run(tmp_path, plain=True, every=5, keep=100)
    run.fit(strategy_of(replicas))
    total = STEPS * EPOCHS
    assert sorted({entry.step for entry in stored(tmp_path)}) == sorted(
        {*range(5, total + 1, 5), *range(STEPS, total + 1, STEPS)}
    )
    if replicas > 1:
        assert max(executed) >= 4


def test_it_saves_by_the_chiefs_clock(tmp_path: Path) -> None:
    run = Run(tmp_path, plain=True, seconds=1e-9, keep=100, epochs=1)
    run.fit(strategy_of(2))
    assert [entry.step for entry in stored(tmp_path)] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_damaged_checkpoint_is_named_and_the_one_before_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, plain=True, every=5, epochs=1)
    run.fit(strategy_of(1))
    newest, before = stored(tmp_path)[:2]
    weights = newest.path / "model.weights.h5"
    weights.write_bytes(weights.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "tfdist"):
        found = CheckpointManager(tmp_path, RetentionPolicy(2), strategy_of(1)).latest()
    assert found is not None and found[1] == str(before.path)
    assert f"{newest.path} is damaged: model.weights.h5 has" in caplog.text
    run.fit(strategy_of(1))
    assert [entry.fault() for entry in stored(tmp_path)] == [None, None]


@pytest.mark.parametrize(("name", "content"), [("summary.json", b"[" * 100_000), ("replicas.npz", b"PK")])
def test_a_checkpoint_that_holds_something_else_is_named_and_the_one_before_used(
    name: str, content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its marker fits its bytes: somebody else wrote both."""
    Run(tmp_path, plain=True, every=5, epochs=1).fit(strategy_of(1))
    newest, before = stored(tmp_path)[:2]
    marker = json.loads((newest.path / "checkpoint.json").read_bytes())
    marker["files"][name] = {"bytes": len(content), "crc32": zlib.crc32(content)}
    (newest.path / name).write_bytes(content)
    (newest.path / "checkpoint.json").write_text(json.dumps(marker))
    assert newest.fault() is None
    with caplog.at_level(logging.WARNING, "tfdist"):
        found = CheckpointManager(tmp_path, RetentionPolicy(2), strategy_of(1)).latest()
    assert found is not None and found[1] == str(before.path)
    assert f"{newest.path} is damaged: {name}" in caplog.text


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    run = Run(tmp_path / "file" / "folder", plain=True, epochs=1)
    with caplog.at_level(logging.WARNING, "tfdist"):
        run.fit(strategy_of(2))
    assert len(run.history["loss"]) == 1
    assert "No checkpoint at step 8. The training continues without it." in caplog.text


def test_another_model_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, plain=True, epochs=1)
    run.fit(strategy_of(1))
    other = Run(tmp_path, plain=True, make=scheduled)
    with pytest.raises(RunDirError, match="another model or optimizer than the config's"):
        other.fit(strategy_of(1))


def test_another_model_is_told_by_the_first_variable_that_differs(tmp_path: Path) -> None:
    checkpoints = CheckpointManager(tmp_path, RetentionPolicy(2), strategy_of(1))
    summaries = []
    for units in (4, 5):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units, name="hidden")])
        model.compile("sgd")
        model.optimizer.build(model.trainable_variables)
        summaries.append(CheckpointSummary(0, 0, 0, 4, 1, 1, 1, 1, 0.0, variables_of(model)))
    told = r"its variable 0 is float32 \(3, 4\), and that of the model, \S*hidden/kernel, is float32 \(3, 5\)"
    with pytest.raises(RunDirError, match=told):
        checkpoints.restore_weights(model, summaries[0])


def test_keras_alone_opens_the_weights(tmp_path: Path) -> None:
    run = Run(tmp_path, plain=True, make=scheduled, epochs=1)
    run.fit(strategy_of(1))
    weights = run.model.get_weights()
    for variable in run.model.weights:
        variable.assign(keras.ops.zeros_like(variable))
    run.model.load_weights(stored(tmp_path)[0].path / "model.weights.h5")
    for received, expected in zip(run.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(received, expected)
