"""Scripts whose `fit`s end anywhere and go on when they are run again: every bit is that of one never touched."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.mirrored import mirrored
from tests.marks import slow
from tfdist.checkpoint.checkpoint_files import stored
from tfdist.errors import RunDirError, UsageError
from tfdist.keras_repairs.files.weights_copy import WeightsCopy
from tfdist.keras_repairs.forward.gathered_metrics import copies
from tfdist.keras_repairs.install import RepairHooks, repairs
from tfdist.rundir import RunDir
from tfdist.training.checkpoints.checkpoint_options import CheckpointOptions, CheckpointRequest
from tfdist.training.checkpoints.fit_registry import FitRegistry
from tfdist.training.libraries import seed_all
from tfdist.training.run_record_callback import RunRecordCallback

SAMPLES, BATCH, SEED = 45, 6, 11
STEPS = -(-SAMPLES // BATCH)


class Killed(Exception):
    """Ends a script as a kill would, but leaves this process alive."""


class Kills(keras.callbacks.Callback):
    """Saves and ends at the k-th call of a method, over all fits of a script; it looks at no batch else."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script
        setattr(self, script.method, self.count)

    def count(self, *_: Any, **__: Any) -> None:
        self.script.left -= 1
        if self.script.left == 0:
            self.script.said = self.script.fits._save_now()
            raise Killed


@dataclass
class Script:
    """One script in as many starts as it takes; each start is as good as a process of its own."""

    folder: Path
    body: Callable[[Script], None]
    replicas: int = 1
    every: int | None = None
    history: list[dict[str, list[float]]] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    drawn: list[float] = field(default_factory=list)
    method: str = "on_epoch_begin"
    left: int = 0
    said: str | None = None

    @property
    def strategy(self) -> tf.distribute.Strategy:
        return tf.distribute.get_strategy() if self.replicas == 1 else mirrored(self.replicas)

    def run(self, method: str = "on_epoch_begin", call: int = 0, resume: str = "auto") -> bool:
        """Runs it to its end, or until the k-th call of a callback's method; returns whether it came to its end."""
        keras.backend.clear_session()
        seed_all(SEED)
        self.keeping = CheckpointOptions(RunDir(self.folder), every_steps=self.every, resume=resume)
        self.fits = FitRegistry(self.strategy, self.keeping, seed=SEED)
        self.method, self.left = method, call
        self.history, self.values, self.drawn = [], [], []
        with installed(self.fits), self.strategy.scope():
            try:
                self.body(self)
            except Killed:
                return False
        return True

    def fit(self, model: keras.Model, *data: Any, callbacks: Any = (), **options: Any) -> None:
        given = [*callbacks, *([Kills(self)] if self.left else [])]
        kept = model.fit(*data, callbacks=given, verbose=0, **options)
        self.history.append({name: list(map(float, values)) for name, values in kept.history.items()})
        self.drawn.append(float(np.random.random()))
        variables = [*model.variables, *model.optimizer.variables]
        self.values += [b"".join(copy.numpy().tobytes() for copy in copies(variable)) for variable in variables]


@contextlib.contextmanager
def installed(fits: FitRegistry) -> Iterator[None]:
    """The repairs as a process of its own has them: they know the fits of one start."""
    hooks = RepairHooks(
        imposed_seed=SEED, extra_callbacks=lambda given: [] if given is None else fits.callbacks_for(given)
    )
    with pytest.MonkeyPatch.context() as patch:
        for repair in repairs(hooks):
            original = getattr(repair.owner, repair.name)
            patch.setattr(repair.owner, repair.name, repair.make(getattr(original, "__wrapped__", original)))
        yield


def samples() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).normal(size=(SAMPLES, 5)).astype(np.float32)
    return x, x[:, :3].argmax(axis=1)


def network() -> keras.Sequential:
    """Without a shape: the first batch builds it, or the process that is to restore it."""
    return keras.Sequential(
        [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.4), keras.layers.Dense(3)]
    )


def compiled(model: keras.Model, optimizer: Any) -> keras.Model:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def pretrain_and_finetune(script: Script) -> None:
    """Two fits on arrays, whose order nobody seeds, with what Keras's callbacks know; the second of fewer weights."""
    x, y = samples()
    model = compiled(network(), keras.optimizers.Adam(0.02, use_ema=True, gradient_accumulation_steps=3))
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True, start_from_epoch=1)
    plateau = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=1.0)
    script.fit(model, x, y, batch_size=BATCH, epochs=5, validation_data=(x[:20], y[:20]), callbacks=[stop, plateau])
    script.drawn += model.evaluate(x, y, verbose=0)
    model.layers[0].trainable = False
    compiled(model, keras.optimizers.SGD(0.05, momentum=0.9))
    script.fit(model, x, y, batch_size=BATCH, epochs=2)


def pipelines(script: Script) -> None:
    """Two fits on one pipeline of tfdist.data, which counts its epochs on."""
    x, y = samples()
    data = tfdist.data.arrays(x, y, batch_size=BATCH, shuffle=True, seed=4, strategy=script.strategy)
    model = compiled(network(), "adam")
    script.fit(model, data, epochs=2)
    script.fit(model, data, epochs=2)


def shuffled_dataset(script: Script) -> None:
    x, y = samples()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(20).batch(BATCH)
    model = compiled(network(), "sgd")
    script.fit(model, data, epochs=2)
    script.fit(model, data.repeat(), epochs=3, steps_per_epoch=5)


def seeded_by_the_script(script: Script) -> None:
    keras.utils.set_random_seed(99)
    x, y = samples()
    script.fit(compiled(network(), "rmsprop"), x, y, batch_size=BATCH, epochs=3)


class TwoOptimizers(keras.Model):
    """Its step has an optimizer for each layer, which accumulate gradients over three batches."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = keras.layers.Dense(8), keras.layers.Dense(3)

    def build(self, shape: Any) -> None:
        self.first.build((None, 5))
        self.last.build((None, 8))

    def call(self, inputs: Any) -> Any:
        return self.last(self.first(inputs))

    def compile_two(self) -> None:
        compiled(self, "sgd")
        self.build(None)
        self.one = keras.optimizers.Adam(0.02, gradient_accumulation_steps=3)
        self.other = keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)
        for optimizer, layer in self.pairs():
            optimizer.build(layer.trainable_variables)

    def pairs(self) -> list[tuple[keras.optimizers.Optimizer, keras.layers.Layer]]:
        return [(self.one, self.first), (self.other, self.last)]

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        for optimizer, layer in self.pairs():
            optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
        return {}


def two_optimizers(script: Script) -> None:
    x, y = samples()
    model = TwoOptimizers()
    model.compile_two()
    script.fit(model, x, y, batch_size=BATCH, epochs=2)
    variables = [*model.one.variables, *model.other.variables]
    script.values += [b"".join(copy.numpy().tobytes() for copy in copies(variable)) for variable in variables]


def assert_same(one: Script, other: Script) -> None:
    assert one.history == other.history
    assert one.drawn == other.drawn
    assert [value == expected for value, expected in zip(one.values, other.values, strict=True)] == [True] * len(
        one.values
    )


@pytest.mark.parametrize(
    ("body", "replicas", "kills"),
    [
        slow(pretrain_and_finetune, 2, [("on_train_batch_begin", STEPS + 4)]),
        (pretrain_and_finetune, 1, [("on_test_batch_begin", 2), ("on_train_begin", 2)]),
        slow(pipelines, 2, [("on_train_batch_begin", STEPS + 4)]),
        (pipelines, 1, [("on_train_batch_begin", 2 * STEPS + 3)]),
        (two_optimizers, 2, [("on_train_batch_begin", STEPS + 6)]),  # in the midst of an accumulation
        slow(shuffled_dataset, 1, [("on_train_batch_begin", STEPS + 4), ("on_train_batch_begin", 13)]),
        slow(seeded_by_the_script, 1, [("on_train_batch_begin", 3)]),
    ],
)
def test_every_bit_is_that_of_a_script_that_was_not_killed(
    body: Callable[[Script], None], replicas: int, kills: list[tuple[str, int]], tmp_path: Path
) -> None:
    whole = Script(tmp_path / "whole", body, replicas)
    assert whole.run()
    killed = Script(tmp_path / "killed", body, replicas)
    for method, call in kills:
        assert not killed.run(method, call)
    assert killed.run()
    assert_same(killed, whole)


def without_chance(script: Script) -> None:
    """Two fits of a model that is the same on any number of replicas; `seed_all` has seeded its weights."""
    x, y = samples()
    model = compiled(keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(3)]), "adam")
    script.fit(model, x, y, batch_size=BATCH, epochs=1)
    script.fit(model, x, y, batch_size=BATCH, epochs=2, validation_data=(x[:20], y[:20]))


@pytest.mark.parametrize(("before", "after"), [(2, 3), slow(3, 1), slow(1, 2)])
def test_on_another_number_of_replicas_it_ends_the_same_but_for_rounding(
    before: int, after: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The fit that was over gives back its end; the other one goes on within an epoch, with the samples it has left."""
    whole = Script(tmp_path / "whole", without_chance, before)
    assert whole.run()
    killed = Script(tmp_path / "killed", without_chance, before)
    assert not killed.run("on_train_batch_begin", STEPS + STEPS + 4)
    killed.replicas = after
    assert killed.run()
    assert f"fit 2 goes on after step {STEPS + 3} (epoch 2, 3 batches done), which was on {before} replicas" in (
        capfd.readouterr().err
    )
    for mine, expected in zip(killed.history, whole.history, strict=True):
        for name, values in expected.items():
            assert mine[name] == pytest.approx(values, rel=1e-5, abs=1e-6), name
    for mine, expected in zip(killed.values, whole.values, strict=True):
        # The first replica's; of integers the bits.
        one = np.frombuffer(mine[: len(mine) // after], np.float32)
        np.testing.assert_allclose(one, np.frombuffer(expected[: len(expected) // before], np.float32), 1e-3, 1e-5)


def generated(script: Script) -> None:
    x, y = samples()

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, SAMPLES, BATCH):
            yield x[start : start + BATCH], y[start : start + BATCH]

    spec = (tf.TensorSpec([None, 5], tf.float32), tf.TensorSpec([None], tf.int64))
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    script.fit(compiled(network(), "sgd"), data, epochs=3)


def test_data_that_is_not_tfdists_goes_on_with_a_whole_epoch_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Script(tmp_path / "whole", generated)
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert whole.run()
    assert "its data is a tf.data.Dataset, and it calls Python code" in caplog.text
    killed = Script(tmp_path / "killed", generated, every=2)
    assert not killed.run("on_train_batch_begin", STEPS + 4)
    assert killed.said == f"the end of epoch 1 in {tmp_path / 'killed' / 'checkpoints'}"
    assert [entry.step for entry in stored(tmp_path / "killed" / "checkpoints")] == [STEPS]
    assert killed.run()
    # This one's order does not change.
    assert_same(killed, whole)


def test_a_stop_within_an_epoch_tells_of_no_checkpoint_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of data that goes on at the ends of epochs alone."""

    def fail(self: WeightsCopy) -> memoryview:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(WeightsCopy, "content", fail)
    script = Script(tmp_path, generated)
    assert not script.run("on_train_batch_begin", STEPS + 4)
    assert script.said is None
    assert not stored(tmp_path / "checkpoints")


def test_data_that_became_unknown_does_not_go_on_within_an_epoch(tmp_path: Path) -> None:
    def body(own: Callable[[Any], Any]) -> Callable[[Script], None]:
        def one(script: Script) -> None:
            data = tf.data.Dataset.from_tensor_slices(samples()).batch(BATCH).map(lambda x, y: (own(x), y))
            script.fit(compiled(keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)]), "sgd"), data, epochs=2)

        return one

    def python(x: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(lambda values: values, [x], tf.float32), [None, 5])

    script = Script(tmp_path, body(lambda x: x))
    assert not script.run("on_train_batch_begin", STEPS + 4)
    script.body = body(python)
    with pytest.raises(RunDirError, match="after 3 steps of an epoch.*it calls Python code"):
        script.run()
    script.body = body(lambda x: x)
    assert script.run()


def one_fit(batch_size: int = BATCH, units: int = 3, callbacks: Any = (), epochs: int = 1) -> Callable[[Script], None]:
    def body(script: Script) -> None:
        x, y = samples()
        model = compiled(keras.Sequential([keras.layers.Dense(units)]), "sgd")
        script.fit(model, x, y, batch_size=batch_size, epochs=epochs, callbacks=callbacks)

    return body


def test_what_cannot_be_made_right_is_refused(tmp_path: Path) -> None:
    script = Script(tmp_path, one_fit())
    with pytest.raises(RunDirError, match="There is nothing to resume"):
        script.run(resume="must")
    assert script.run(resume="must" if stored(tmp_path / "checkpoints") else "auto")
    with pytest.raises(RunDirError, match="has checkpoints of an earlier training"):
        script.run(resume="never")
    script.body = one_fit(batch_size=BATCH + 1)
    with pytest.raises(RunDirError, match=f"another batch_size: {BATCH}"):
        script.run()
    script.body = one_fit(units=4)
    with pytest.raises(RunDirError, match="another model or optimizer"):
        script.run()
    wish = CheckpointRequest(CheckpointOptions(RunDir(tmp_path), resume="auto", is_asked_for=True), None)
    script.body = one_fit(callbacks=[wish, keras.callbacks.BackupAndRestore(tmp_path / "backup")])
    with pytest.raises(UsageError, match="tfdist.callbacks.* and BackupAndRestore"):
        script.run()


def test_more_epochs_are_trained_and_what_came_after_them_begins_anew(tmp_path: Path) -> None:
    def body(epochs: int) -> Callable[[Script], None]:
        def two(script: Script) -> None:
            one_fit(epochs=epochs)(script)
            one_fit()(script)

        return two

    script = Script(tmp_path / "longer", body(1))
    assert script.run()
    script.body = body(2)
    assert script.run()
    whole = Script(tmp_path / "whole", body(2))
    assert whole.run()
    assert_same(script, whole)


def test_the_record_of_a_script_goes_on(tmp_path: Path) -> None:
    def body(script: Script) -> None:
        record = RunRecordCallback(RunDir(tmp_path))
        one_fit(callbacks=[record, CheckpointRequest(script.keeping, record)], epochs=3)(script)

    script = Script(tmp_path, body)
    assert not script.run("on_train_batch_begin", 2 * STEPS + 2)
    assert script.run()
    run = RunDir(tmp_path)
    assert [json.loads(line)["epoch"] for line in run.metrics_file.read_text().splitlines()] == [0, 1, 2]
    assert json.loads(run.history_file.read_text()) == script.history[0]
    assert len(script.history[0]["loss"]) == 3
    (resumed,) = map(json.loads, run.resumes_file.read_text().splitlines())
    assert (resumed["epoch"], resumed["step"], resumed["total"]) == (2, 1, 2 * STEPS + 1)


class Dies(keras.callbacks.Callback):
    """Ends a script at the end of an epoch, when the callbacks before it have written theirs, before a checkpoint."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self._epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == self._epoch:
            raise Killed


@pytest.mark.parametrize("saves", [False, True])
def test_a_log_has_the_row_of_each_epoch_once(tmp_path: Path, saves: bool) -> None:
    """Killed between the row of an epoch and its checkpoint, or stopped there."""

    def body(script: Script) -> None:
        x, y = samples()
        log = keras.callbacks.CSVLogger(script.folder.with_suffix(".csv"))
        dies = [Dies(1)] if dying and not saves else []
        script.fit(compiled(network(), "sgd"), x, y, batch_size=BATCH, epochs=4, callbacks=[log, *dies])

    dying = False
    whole = Script(tmp_path / "whole", body)
    assert whole.run()
    dying = True
    killed = Script(tmp_path / "killed", body)
    assert not killed.run("on_epoch_end", 2 if saves else 0)
    rows = (tmp_path / "killed.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", "0", "1"]
    dying = False
    assert killed.run()
    assert_same(killed, whole)
    assert (tmp_path / "killed.csv").read_text() == (tmp_path / "whole.csv").read_text()
