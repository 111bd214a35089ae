"""What a repair does that no case of the table shows: with it, and with it taken out."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.references import of_one_replica
from tests.devices.repair_removal import take_out
from tests.devices.test_coupled_losses import ReducesItself, fitted
from tests.devices.test_random_seeds import masks
from tests.devices.test_refusals import REFUSED, compiled
from tests.exactness.cases import outcome
from tests.exactness.table import classifier, numbers
from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs
from tfdist.data.formats.array_samples import ArraySamples
from tfdist.data.pipeline import build
from tfdist.keras_repairs.files import model_saving
from tfdist.keras_repairs.loop import trainer
from tfdist.keras_repairs.model_checks import refusals
from tfdist.order.epoch_span import Position
from tfdist.runtime.strategy_settings import settings_of

SAMPLES = 65


def test_one_replica_steps_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """On several replicas what Keras does here depends on the moment; on one it always counts a step too many."""
    expected = of_one_replica("dataset_of_unknown_size", SAMPLES)
    take_out("TFEpochIterator._get_iterator", monkeypatch)
    assert outcome("dataset_of_unknown_size", SAMPLES)["iterations"] > expected["iterations"]


def batches_of_rest() -> list[int]:
    """The numbers of the batches of an epoch of 5, of which 3 were done before."""
    x, y = numbers(20)
    with mirrored(2).scope():
        model = compiled()
        data = build(ArraySamples(x, y), batch_size=4, strategy=mirrored(2), begin=Position(0, 3))
        seen: list[int] = []
        count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
        model.fit(data, verbose=0, callbacks=[count])
    return seen


def test_an_epoch_that_goes_on_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    assert batches_of_rest() == [3, 4]
    take_out("TFEpochIterator._enumerate_iterator", monkeypatch)
    assert batches_of_rest() == [0, 1, 2, 3, 4]


CLEARED = """
import os
import keras
import tensorflow as tf
from tfdist import keras_repairs

keras_repairs.install()
with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    for clear_session in (keras.backend.clear_session, keras.backend.clear_session.__wrapped__):
        clear_session()
        print(tf.distribute.has_strategy(), flush=True)
    os._exit(0)
"""


def test_a_cleared_session_forgets_the_strategy() -> None:
    """In a process of its own: TensorFlow's default graph would not be the same afterwards."""
    done = subprocess.run([sys.executable, "-c", CLEARED], capture_output=True, text=True, timeout=150)
    assert done.stdout.split() == ["True", "False"]


FIRST_CALL = """
import keras, numpy as np, tensorflow as tf
import tfdist

class Asking(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(tfdist.is_chief(), flush=True)

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((np.ones((5, 1)), np.ones(5))).batch(2)
model.fit(data, validation_data=data, epochs=2, verbose=0, callbacks=[Asking()])
model.fit(data.repeat(), steps_per_epoch=2, epochs=2, verbose=0, callbacks=[Asking()])
"""


def test_a_script_calls_tfdist_for_the_first_time_while_it_trains() -> None:
    """Its iterator is one that was made before the repairs were installed, and serves the epochs that follow."""
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, timeout=150)
    assert done.stdout.split() == 4 * ["True"], done.stderr


class Unfit(keras.layers.Layer):
    """Calls what XLA cannot compile."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs + 0 * tf.strings.to_number(tf.strings.as_string(tf.stop_gradient(inputs)), inputs.dtype)


def fit_unfit() -> None:
    x, y = numbers(8)
    model = keras.Sequential([keras.Input((6,)), Unfit(), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=True)
    model.fit(x.astype("float32"), y, verbose=0)


def test_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    with mirrored(3).scope():
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
            fit_unfit()
        take_out("Layer.__call__", monkeypatch)
        fit_unfit()


def test_auto_compiles_nothing_under_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    monkeypatch.setattr(settings_of(mirrored(2)), "emulates_xla", True)
    with mirrored(2).scope():
        assert compiled().jit_compile
        take_out("Trainer._resolve_auto_jit_compile", monkeypatch)
        assert not compiled().jit_compile


def test_a_script_is_not_overruled(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    monkeypatch.setattr(settings_of(mirrored(2)), "jit", "on")
    with mirrored(2).scope():
        assert compiled(jit_compile=False).jit_compile
        take_out("Trainer.compile", monkeypatch)
        assert not compiled(jit_compile=False).jit_compile


class OfTwoViews(keras.Model):
    """Calls its layer with two views of a batch; on one replica the losses of the second call are left."""

    def __init__(self) -> None:
        super().__init__()
        self.project = keras.layers.Dense(3, activation="tanh", activity_regularizer="l2")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.project(x)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        x, _ = data
        with tf.GradientTape() as tape:
            apart = tf.reduce_mean(tf.square(self(2 * x, training=True) - self(x, training=True)))
            loss = apart + tf.add_n(self.losses)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def weights_of_two_views() -> np.ndarray:
    keras.utils.set_random_seed(11)
    x, y = numbers(SAMPLES)
    model = OfTwoViews()
    model.compile(keras.optimizers.SGD(0.1))
    model.fit(x.astype("float32"), y, batch_size=32, shuffle=False, verbose=0)
    return model.get_weights()[0]


def test_a_layer_that_is_called_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    expected = weights_of_two_views()
    with mirrored(3).scope():
        np.testing.assert_allclose(weights_of_two_views(), expected, rtol=1e-5, atol=1e-6)
        take_out("Layer._clear_losses", monkeypatch)
        assert not np.allclose(weights_of_two_views(), expected, rtol=1e-3)


def test_a_loss_outside_of_the_replicas_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    loss, zeros, ones = keras.losses.MeanSquaredError(), np.zeros((4, 2), "float32"), np.ones((4, 2), "float32")
    with mirrored(3).scope():
        assert float(loss(zeros, ones)) == 1.0
        take_out("keras.src.losses.loss.scale_loss_for_distribution", monkeypatch)
        assert float(loss(zeros, ones)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["reduction=None", "set_distribution"])
def test_models_are_not_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`TensorFlowTrainer._maybe_symbolic_build` looks at the model first; nothing else would stop it."""
    keras_repairs.install()
    monkeypatch.setattr(refusals, "check_model", lambda *_: None)
    monkeypatch.setattr(trainer, "check_reductions", lambda model: None)
    fit_refused(name)


class OwnDistribution(keras.distribution.DataParallel):
    """A distribution of a user's, which nobody knows."""


def fit_refused(name: str) -> None:
    x, y = numbers(8)
    with mirrored(2).scope(), contextlib.ExitStack() as ended:
        if name == "set_distribution":
            keras.distribution.set_distribution(OwnDistribution(devices=["cpu:0", "cpu:1"]))
            ended.callback(keras.distribution.set_distribution, None)
        model = REFUSED.get(name, compiled)()
        model.fit(x.astype("float32"), y, verbose=0)


def error_of_synchronized_moments() -> float:
    """How much of a variance of 1 rounding changes where the mean is 1000."""
    x = (np.random.default_rng(1).normal(size=(96, 5)) + 1000).astype("float32")

    def on_replica() -> tf.Tensor:
        place = tf.distribute.get_replica_context().replica_id_in_sync_group
        return keras.ops.moments(tf.constant(x)[32 * place : 32 * (place + 1)], 0, synchronized=True)[1]

    (variance, *_) = mirrored(3).experimental_local_results(tf.function(lambda: mirrored(3).run(on_replica))())
    return float(np.abs(variance.numpy() - np.var(x.astype("float64"), axis=0)).max())


def test_synchronized_moments_lose_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    with mirrored(3).scope():
        assert error_of_synchronized_moments() < 1e-5
        take_out("keras.src.backend.tensorflow.nn._compute_moments_sync", monkeypatch)
        assert error_of_synchronized_moments() > 1e-3


def test_replicas_draw_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(set(map(tuple, masks(3, seed=3)))) == 6
    take_out("SeedGenerator.next", monkeypatch)
    monkeypatch.setattr(keras_repairs, "install", lambda: None)
    assert len(set(map(tuple, masks(3, seed=3)))) == 2


def held_after_loading(name: str) -> float:
    """What three replicas together hold of a gradient of 1 that one of them had accumulated when it was saved."""
    with mirrored(3).scope():
        model = classifier()
        optimizer = keras.optimizers.SGD(gradient_accumulation_steps=2)
        optimizer.build(model.trainable_variables)
        saved = [np.ones(variable.shape) for variable in optimizer.variables]
        load = getattr(optimizer, name)
        load({str(i): value for i, value in enumerate(saved)} if name == "load_own_variables" else saved)
        copies = mirrored(3).experimental_local_results(optimizer._accumulated_gradients[1].value)
    return sum(float(copy.numpy()[0]) for copy in copies)


@pytest.mark.parametrize("name", ["load_own_variables", "set_weights"])
def test_what_is_loaded_counts_on_each_replica(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    assert held_after_loading(name) == 1.0
    take_out(f"BaseOptimizer.{name}", monkeypatch)
    assert held_after_loading(name) == 3.0


def test_loading_waits_for_the_other_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chief may still be writing."""
    keras_repairs.install()
    barriers: list[str] = []
    monkeypatch.setattr(model_saving, "barrier", lambda: barriers.append("met"))
    model = classifier()
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "all.weights.h5")
    for load in (keras.models.load_model, keras.saving.load_model):
        load(tmp_path / "model.keras")
    model.load_weights(tmp_path / "all.weights.h5")
    assert len(barriers) == 3


def test_a_loss_that_reduces_itself_is_that_of_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    expected = fitted(loss=ReducesItself())["history"]["loss"]
    take_out("keras.src.trainers.compile_utils.get_loss", monkeypatch)
    with mirrored(3).scope():
        assert fitted(loss=ReducesItself())["history"]["loss"] != pytest.approx(expected, rel=1e-3)


def test_what_was_exported_cannot_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras_repairs.install()
    with mirrored(2).scope():
        compiled().export(tmp_path / "exported", verbose=False)
        x = tf.constant(numbers(4)[0], tf.float32)
        assert tf.saved_model.load(str(tmp_path / "exported")).serve(x).shape[0] == 4
        take_out("_WrapperFunction._call_flat", monkeypatch)
        loaded = tf.saved_model.load(str(tmp_path / "exported"))
        with pytest.raises(tf.errors.InvalidArgumentError, match="not supposed to be executed"):
            loaded.serve(x)
