"""Scripts that are killed anywhere resume when they are run again: every bit is that of one never touched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist
from tests.devices.killed_script import (
    BATCH,
    STEPS,
    Script,
    assert_same,
    compiled,
    network,
    one_fit,
    samples,
)
from tests.exactness.own_step_cases import OwnTracker
from tests.helpers.marks import slow
from tfdist.keras_repairs.base.replica_copies import copies


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


def distilled(script: Script) -> None:
    """A student that learns from a teacher by Keras's Distiller."""
    x, y = samples()
    x_only = keras.Input((5,))
    teacher = keras.Model(x_only, keras.layers.Dropout(0.5)(keras.layers.Dense(3)(x_only)))
    student = keras.Sequential([keras.Input((5,)), *network().layers])
    losses = [
        keras.distillation.LogitsDistillation(2.0, keras.losses.KLDivergence()),
        keras.distillation.FeatureDistillation("mse"),
    ]
    distiller = keras.distillation.Distiller(teacher, student, losses)
    before = teacher.get_weights()
    script.fit(compiled(distiller, "adam"), x, y, batch_size=BATCH, epochs=3)
    assert all((one == other).all() for one, other in zip(before, teacher.get_weights(), strict=True))


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


@pytest.mark.parametrize(
    ("body", "replicas", "kills"),
    [
        slow(pretrain_and_finetune, 2, [("on_train_batch_begin", STEPS + 4)]),
        slow(pretrain_and_finetune, 1, [("on_test_batch_begin", 2), ("on_train_begin", 2)]),
        slow(pipelines, 2, [("on_train_batch_begin", STEPS + 4)]),
        (pipelines, 1, [("on_train_batch_begin", 2 * STEPS + 3)]),
        slow(two_optimizers, 2, [("on_train_batch_begin", STEPS + 6)]),  # in the midst of an accumulation
        slow(shuffled_dataset, 1, [("on_train_batch_begin", STEPS + 4), ("on_train_batch_begin", 13)]),
        slow(seeded_by_the_script, 1, [("on_train_batch_begin", 3)]),
        slow(distilled, 2, [("on_train_batch_begin", STEPS + 3)]),
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
    assert f"fit 2 resumes after step {STEPS + 3} (epoch 2, 3 batches done), which was on {before} replicas" in (
        capfd.readouterr().err
    )
    for mine, expected in zip(killed.history, whole.history, strict=True):
        for name, values in expected.items():
            assert mine[name] == pytest.approx(values, rel=1e-5, abs=1e-6), name
    for mine, expected in zip(killed.values, whole.values, strict=True):
        # The first replica's; of integers the bits.
        one = np.frombuffer(mine[: len(mine) // after], np.float32)
        np.testing.assert_allclose(one, np.frombuffer(expected[: len(expected) // before], np.float32), 1e-3, 1e-5)


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


def test_a_fit_after_one_that_has_raised_is_saved(tmp_path: Path) -> None:
    """On the same model: it is no part of the other one, which is over."""

    class Enough(Exception):
        """Ends a fit from one of its callbacks."""

    def enough(epoch: int, logs: Any) -> None:
        raise Enough

    def body(script: Script) -> None:
        x, y = samples()
        model = compiled(network(), "sgd")
        with pytest.raises(Enough):
            script.fit(model, x, y, batch_size=BATCH, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=enough)])
        script.fit(model, x, y, batch_size=BATCH)

    script = Script(tmp_path / "run", body, every=1)
    assert not script.run("on_train_batch_begin", STEPS + 3)
    assert script.said is not None and "fit-2" in script.said


def test_a_metric_under_another_name_whose_epoch_has_only_its_end_left(tmp_path: Path) -> None:
    """What the step logs of it is a replica's own, and no step is left that would say what it is of.

    It is not among the model's `metrics`, and so goes on in the second epoch.
    """

    def body(script: Script) -> None:
        x, y = samples()
        inputs = keras.Input((5,))
        model = OwnTracker(inputs, keras.layers.Dense(3, activation="softmax")(inputs))
        model.compile("sgd")
        script.fit(model, x, y, batch_size=BATCH, epochs=2, validation_data=(x[:20], y[:20]))

    whole, killed = Script(tmp_path / "whole", body, 2), Script(tmp_path / "killed", body, 2)
    assert whole.run()
    assert not killed.run("on_test_begin", 1)
    assert killed.said is not None and "8 of 8 batches" in killed.said
    assert killed.run()
    assert_same(killed, whole)


@pytest.mark.parametrize(("at_once", "done", "replicas"), [slow(3, 6, 2), slow(3, 3, 2), slow(4, 4, 2), slow(3, 6, 1)])
def test_several_steps_an_execution_go_on_where_they_ended_and_make_no_step_too_many(
    at_once: int, done: int, replicas: int, tmp_path: Path
) -> None:
    """In the second epoch; with three at once the last execution has fewer."""

    def body(script: Script) -> None:
        x, y = samples()
        model = keras.Sequential([keras.layers.Dense(3)])
        model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"], steps_per_execution=at_once)
        script.fit(model, x, y[:, None], batch_size=BATCH, epochs=3)
        script.steps = int(model.optimizer.iterations.numpy())

    whole, killed = Script(tmp_path / "whole", body, replicas), Script(tmp_path / "killed", body, replicas)
    assert whole.run()
    assert not killed.run("on_train_batch_begin", -(-STEPS // at_once) + done // at_once + 1)
    assert killed.said is not None and f"{done} of {STEPS} batches" in killed.said
    assert killed.run()
    assert killed.steps == whole.steps == 3 * STEPS
    assert_same(killed, whole)


class Annealing(keras.callbacks.Callback):
    """Weighs the loss by a variable of the script's, and notes what it has seen: names nothing of it."""

    def __init__(self, weight: tf.Variable, seen: list[float]) -> None:
        super().__init__()
        self.weight, self.seen, self.step, self.names = weight, seen, 0, {"before"}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        self.weight.assign_add(0.1 / self.step)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen.append(float(self.weight))
        self.names.add(f"epoch {epoch}")


def annealing(script: Script) -> None:
    weight, seen = tf.Variable(0.0, trainable=False), []
    model = network()
    model.compile("sgd", lambda y, p: weight * keras.losses.sparse_categorical_crossentropy(y, p))
    script.fit(model, *samples(), batch_size=BATCH, epochs=3, callbacks=[Annealing(weight, seen)])
    script.drawn += seen


def test_what_fit_changes_in_a_callback_is_kept_or_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = Script(tmp_path / "whole", annealing)
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert whole.run()
    assert caplog.text.count("changed in callbacks and they cannot hold: Annealing.names.") == 1
    killed = Script(tmp_path / "killed", annealing, every=2)
    assert not killed.run("on_train_batch_begin", STEPS + 4)
    assert killed.run()
    assert_same(killed, whole)
