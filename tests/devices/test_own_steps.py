"""The user's own steps, tried out as on one replica and on two: what is found, what is refused, and what is left."""

from __future__ import annotations

import functools
import logging
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from tensorflow.python.eager import context

import tfdist
from tests.devices.repair_removal import take_out
from tests.exactness.comparison import assert_same
from tests.exactness.guide_step_cases import experts_that_are_counted
from tests.exactness.metric_cases import own_metrics_everywhere
from tests.exactness.own_step_cases import ContrastInAMethod, StandardizingStep, of
from tests.exactness.table import numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored, strictly
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.step_records import Mode
from tfdist.keras_repairs.coupling import own_steps
from tfdist.keras_repairs.coupling.trials.steps import step_methods
from tfdist.keras_repairs.coupling.trials.steps.step_verdict import StepVerdict
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")


class Stepping(keras.Model):
    """A step whose loss is computed by hand, from rows of features and labels."""

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return ops.mean(ops.square(rows[:, 0] - ops.cast(y, rows.dtype)))

    def gradients_of(self, loss: Any, tape: Any) -> Any:
        return tape.gradient(loss, self.trainable_variables)

    def logs_of(self, loss: Any, rows: Any) -> dict[str, Any]:
        return {"loss": loss}

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            rows = self(x, training=True)
            loss = self.loss_of(x, y, rows)
        self.optimizer.apply(self.gradients_of(loss, tape), self.trainable_variables)
        return self.logs_of(loss, rows)


def contrast(rows: Any, others: Any) -> Any:
    logits = ops.matmul(rows, ops.transpose(others))
    return ops.mean(keras.losses.sparse_categorical_crossentropy(ops.arange(ops.shape(rows)[0]), logits, True))


class Contrasting(Stepping):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return contrast(rows, rows[:, ::-1])


class GatheredContrast(Stepping):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return tfdist.gathered(contrast)(rows, rows[:, ::-1])


class AveragedContrast(Stepping):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return tfdist.averaged(contrast(rows, rows[:, ::-1]))


class Summing(Stepping):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return 0.01 * ops.sum(ops.square(rows[:, 0] - ops.cast(y, rows.dtype)))


class VectorLoss(Stepping):
    """One value a sample, of which TensorFlow takes the gradient of the sum."""

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return 0.01 * ops.square(rows[:, 0] - ops.cast(y, rows.dtype))

    def logs_of(self, loss: Any, rows: Any) -> dict[str, Any]:
        return {"loss": ops.mean(loss)}


class SummingOnce(Summing):
    """A sum of samples, and a mean of them."""

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return super().loss_of(x, y, rows) + ops.mean(rows)


class DeclaredSum(Summing):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return tfdist.summed(super().loss_of(x, y, rows))


class MaskedMean(Stepping):
    """The mean over the samples of a class."""

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        counts = ops.cast(y == 1, rows.dtype)
        return ops.sum(counts * rows[:, 0] ** 2) / ops.maximum(ops.sum(counts), 1)


class ValidMean(Stepping):
    """The mean over the samples that have a label."""

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        counts = ops.cast(y != -1, rows.dtype)
        return ops.sum(counts * rows[:, 0] ** 2) / ops.maximum(ops.sum(counts), 1)


class Clipping(Stepping):
    def gradients_of(self, loss: Any, tape: Any) -> Any:
        return tf.clip_by_global_norm(super().gradients_of(loss, tape), 3.0)[0]


class ClippingRarely(Stepping):
    def gradients_of(self, loss: Any, tape: Any) -> Any:
        return tf.clip_by_global_norm(super().gradients_of(loss, tape), 1000.0)[0]


class LoggingMaximum(Stepping):
    def logs_of(self, loss: Any, rows: Any) -> dict[str, Any]:
        return {"loss": loss, "largest": ops.max(rows)}


class LoggingSum(Stepping):
    def logs_of(self, loss: Any, rows: Any) -> dict[str, Any]:
        return {"loss": loss, "total": ops.sum(rows)}


class TrackingMaximum(Stepping):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.largest = keras.metrics.Mean(name="largest")

    def logs_of(self, loss: Any, rows: Any) -> dict[str, Any]:
        self.largest.update_state(ops.max(rows))
        return {"loss": loss, "largest": self.largest.result()}


class Centering(Stepping):
    """Keeps a moving mean of its outputs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.center = self.add_weight(shape=(4,), initializer="zeros", trainable=False, name="center")

    def logs_of(self, loss: Any, rows: Any) -> dict[str, Any]:
        self.center.assign(0.9 * self.center + 0.1 * ops.mean(rows, axis=0))
        return {"loss": loss}


class Strict(Stepping):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        if tf.executing_eagerly():
            raise RuntimeError("only in graphs")
        return super().loss_of(x, y, rows)


class StrictAndDeclared(Strict):
    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return tfdist.averaged(super().loss_of(x, y, rows))


class Noisy(Stepping):
    """Draws for the batch, and labels of two batches in a row."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seeds = keras.random.SeedGenerator(5)

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        noise = keras.random.normal(ops.shape(x), seed=self.seeds)
        both = ops.concatenate([rows, self(x + noise, training=True)])
        labels = ops.concatenate([ops.ones((ops.shape(x)[0],)), ops.zeros((ops.shape(x)[0],))])
        return keras.losses.BinaryCrossentropy(from_logits=True)(labels, both[:, 0])


class NoisyByTensorFlow(Stepping):
    draw: Any = staticmethod(tf.random.normal)

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        noise = type(self).draw((tf.shape(x)[0], 1))
        return ops.mean(ops.square(rows - tf.cast(noise, rows.dtype)))


class NoisyByTruncated(NoisyByTensorFlow):
    draw = staticmethod(tf.random.truncated_normal)


class NoisyByUniform(NoisyByTensorFlow):
    draw = staticmethod(tf.random.uniform)


class NoisyByIntegers(NoisyByTensorFlow):
    draw = staticmethod(functools.partial(tf.random.uniform, maxval=9, dtype=tf.int32))


def model_of(kind: type[keras.Model]) -> keras.Model:
    inputs = keras.Input((6,))
    hidden = layers.Dropout(0.3)(layers.BatchNormalization()(layers.Dense(5, activation="tanh")(inputs)))
    model = kind(inputs, layers.Dense(4)(hidden))
    model.compile(keras.optimizers.SGD(0.1, name="descent"))
    return model


EXACT = [Stepping, AveragedContrast, DeclaredSum, Noisy]
EXACT += [slow(VectorLoss), slow(GatheredContrast), slow(StrictAndDeclared), Clipping, slow(ClippingRarely)]


@pytest.mark.parametrize("kind", EXACT)
def test_steps_that_are_left_alone(kind: type[keras.Model]) -> None:
    with mirrored(2).scope(), strictly(mirrored(2)):
        model_of(kind).fit(*numbers(9), batch_size=4, verbose=0)


@pytest.mark.parametrize("kind", [ContrastInAMethod, slow(StandardizingStep)])
def test_methods_that_take_samples_together_are_gathered(kind: type[keras.Model]) -> None:
    with mirrored(2).scope(), strictly(mirrored(2)):
        model = of(kind)
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(*numbers(9), batch_size=4, verbose=0)
    assert not {"contrast", "centered", "spread"} & set(vars(model))


class CountingInAMethod(ContrastInAMethod):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen = keras.metrics.Sum(name="seen")

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [*super().metrics, self.seen]

    def contrast(self, rows: Any, others: Any) -> Any:
        self.seen.update_state(ops.ones_like(rows[:, 0]))
        return super().contrast(rows, others)


def test_what_a_gathered_method_adds_up_counts_once() -> None:
    with mirrored(2).scope(), strictly(mirrored(2)):
        model = of(CountingInAMethod)
        model.compile("sgd", "sparse_categorical_crossentropy")
        assert model.fit(*numbers(9), batch_size=4, verbose=0).history["seen"] == [9.0]


def test_a_step_runs_whole_whose_methods_cannot_be_gathered_in_a_graph(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather = own_steps._gathered

    def failing_in_graphs(name: str, method: Any) -> Any:
        def gathered(*args: Any) -> Any:
            if tf.inside_function():
                raise UnsupportedError("in a graph")
            return gather(name, method)(*args)

        return gathered

    monkeypatch.setattr(own_steps, "_gathered", failing_in_graphs)
    with mirrored(2).scope(), caplog.at_level(logging.INFO, "tfdist"):
        model = of(ContrastInAMethod)
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(*numbers(9), batch_size=4, verbose=0)
    assert "runs whole" in caplog.text and "what its methods contrast return" in caplog.text


def test_a_model_that_is_tried_out_within_the_trial_of_its_step_draws_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Around a sum by an operator: the step runs on a part of the batch, and the model, within it, on all of it."""
    with mirrored(2).scope(), caplog.at_level(logging.INFO, "tfdist"):
        inputs = keras.Input((6,))
        hidden = layers.Dense(5)(inputs)
        model = Stepping(inputs, layers.Dense(4)(hidden + layers.Dropout(0.3)(hidden)))
        model.compile(keras.optimizers.SGD(0.1))
        model.fit(*numbers(9), batch_size=4, verbose=0)
    assert "could not be tried out" not in caplog.text


WHOLE = [
    (Contrasting, "what the optimizer 'descent' gets as gradients.*neither a mean nor a sum.*tfdist.gathered"),
    (Summing, "what the optimizer 'descent' gets as gradients.*It is a sum.*tfdist.summed"),
    (SummingOnce, "what the optimizer 'descent' gets as gradients.*neither a mean nor a sum"),
    (MaskedMean, "gradients.*neither a mean nor a sum"),
    (ValidMean, "gradients.*neither a mean nor a sum"),
    (LoggingMaximum, "the log 'largest'.*neither"),
    (LoggingSum, "the log 'total'.*It is a sum.*tfdist.summed"),
    (TrackingMaximum, "the metric 'largest' is updated with.*neither"),
    (Centering, "assigns to '.*center'.*tfdist.gathered"),
    (Strict, "could not be tried out .*only in graphs.*tfdist.averaged"),
]


@pytest.mark.parametrize(("kind", "message"), WHOLE)
def test_steps_that_strict_refuses(
    kind: type[keras.Model], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the step computed all of it itself.
    monkeypatch.setattr(step_methods, "_own_methods", lambda model: [])
    with mirrored(2).scope():
        model = model_of(kind)
    before = [np.asarray(variable.value).tolist() for variable in model.variables]
    with strictly(mirrored(2)), pytest.raises(UnsupportedError, match=f"{kind.__name__}.train_step.*{message}"):
        model.fit(*numbers(9), batch_size=4, verbose=0)
    assert [np.asarray(variable.value).tolist() for variable in model.variables] == before


@pytest.mark.parametrize(
    "kind", [LoggingMaximum, *map(slow, (Contrasting, SummingOnce, MaskedMean, ValidMean, TrackingMaximum))]
)
def test_steps_that_are_left_alone_but_for_a_method(kind: type[keras.Model]) -> None:
    with mirrored(2).scope(), strictly(mirrored(2)):
        model_of(kind).fit(*numbers(9), batch_size=4, verbose=0)


@pytest.mark.parametrize("kind", [Contrasting, LoggingMaximum, TrackingMaximum, Centering, Clipping, slow(Strict)])
def test_steps_that_run_whole_or_with_sums_at_the_tape_are_exact(kind: type[keras.Model]) -> None:
    def trained() -> tuple[list[float], list[Any]]:
        keras.utils.set_random_seed(3)
        model = model_of(kind)
        history = model.fit(*numbers(9), batch_size=4, epochs=2, shuffle=False, verbose=0).history
        return [value for name in sorted(history) for value in history[name]], model.get_weights()

    losses, weights = trained()
    with mirrored(3).scope():
        found, of_replicas = trained()
    np.testing.assert_allclose(found, losses, rtol=2e-5)
    for one, other in zip(weights, of_replicas, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


class Scaling(Stepping):
    """As Keras's guide on mixed precision scales a loss, which in 16 bits overflows for a few of the rows alone."""

    def loss_of(self, x: Any, y: Any, rows: Any) -> Any:
        return self.optimizer.scale_loss(16.0 * super().loss_of(x, y, rows))


def test_a_scaled_loss_is_shared_out() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        with mirrored(2).scope(), strictly(mirrored(2)):
            inputs = keras.Input((6,))
            model = Scaling(inputs, layers.Dense(3, dtype="float32")(layers.Dense(8)(inputs)))
            model.compile("sgd")
            model.fit(*numbers(9), batch_size=4, verbose=0)
    finally:
        keras.config.set_dtype_policy("float32")


class Sometimes(Stepping):
    """Updates in every other step."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)

        def update() -> int:
            self.optimizer.apply(gradients, self.trainable_variables)
            return 0

        tf.cond(tf.convert_to_tensor(self.optimizer.iterations) % 2 == 0, update, lambda: 0)
        return {"loss": loss}


def test_an_update_in_a_branch_is_refused() -> None:
    with mirrored(2).scope(), pytest.raises(UnsupportedError, match="Sometimes.*tf.cond.*gradient_accumulation_steps"):
        model_of(Sometimes).fit(*numbers(9), batch_size=4, verbose=0)


def test_nothing_is_tried_out_where_gathering_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_of(mirrored(2)), "gather", False)
    with mirrored(2).scope():
        model_of(Contrasting).fit(*numbers(9), batch_size=4, verbose=0)


DRAWING = [
    ("random_standard_normal", NoisyByTensorFlow),
    slow("truncated_normal", NoisyByTruncated),
    slow("random_uniform", NoisyByUniform),
    ("random_uniform_int", NoisyByIntegers),
]


@pytest.mark.parametrize(("operation", "kind"), DRAWING)
def test_numbers_that_each_replica_draws_for_itself(
    operation: str, kind: type[keras.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no reason to refuse a step; without the repair its numbers would differ between the parts."""
    monkeypatch.setattr(context.context(), "_seed", None)
    with mirrored(2).scope():
        model_of(kind).fit(*numbers(9), batch_size=4, verbose=0)
        take_out(f"tensorflow.python.ops.gen_random_ops.{operation}", monkeypatch)
        with strictly(mirrored(2)), pytest.raises(UnsupportedError, match="gradients"):
            model_of(kind).fit(*numbers(9), batch_size=4, verbose=0)


def test_a_step_that_clips_is_seen_by_larger_gradients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    original = own_steps._mode_of

    def noted(verdict: StepVerdict) -> Mode:
        mode = original(verdict)
        asked.append(mode.sums_at_tape)
        return mode

    monkeypatch.setattr(own_steps, "_mode_of", noted)
    with mirrored(2).scope():
        model_of(ClippingRarely).fit(*numbers(9), batch_size=4, verbose=0)
        assert asked[-1]
        take_out("GradientTape.gradient", monkeypatch)
        model_of(ClippingRarely).fit(*numbers(9), batch_size=4, verbose=0)
        assert not asked[-1]


class SeveralLosses(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compute_loss(x, y, outputs)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.compute_metrics(x, y, outputs)


@pytest.mark.parametrize("eagerly", [False, True])
def test_metrics_of_several_losses_are_made_before_a_step_is_tried_out(eagerly: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(13, 3)), [rng.normal(size=(13, 1)), rng.normal(size=(13, 4))]

    def history() -> dict[str, list[float]]:
        keras.utils.set_random_seed(1)
        inputs = keras.Input([3])
        model = SeveralLosses(inputs, [layers.Dense(1, name="a")(inputs), layers.Dense(4, name="b")(inputs)])
        model.compile("sgd", ["mse", "mae"], run_eagerly=eagerly)
        found: dict[str, list[float]] = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
        return found

    expected = history()
    with mirrored(2).scope():
        assert_same(expected, history(), relative=1e-5)


def test_a_layer_that_keeps_tensors_for_the_step_is_gathered_alone(caplog: pytest.LogCaptureFixture) -> None:
    """What tells the rows of its outputs traces it once more, and is not to leave that trace's tensors behind."""
    with caplog.at_level("INFO"), mirrored(2).scope():
        experts_that_are_counted(37)
    assert "Experts" in caplog.text and "runs whole" not in caplog.text


def test_a_limit_in_a_metric_that_a_layer_updates_is_the_metrics_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"), mirrored(2).scope():
        own_metrics_everywhere(37)
    assert "the metric 'peak'" in caplog.text
    assert "is called with the samples of all replicas" not in caplog.text and "runs whole" not in caplog.text
