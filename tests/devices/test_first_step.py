"""The check of the first step: what it finds, what it leaves as it was, and what a run does then."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from tensorflow.python.eager import context

from tests.devices.references import of_one_replica
from tests.devices.repair_removal import take_out
from tests.devices.shown_repairs import TAKEN_OUT
from tests.exactness.cases import outcome
from tests.exactness.comparison import assert_same_case
from tests.exactness.table import numbers
from tests.helpers.mirrored import checking, mirrored, strictly
from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.coupling import layer_calls
from tfdist.keras_repairs.coupling.trials.call_trial import CallVerdict
from tfdist.keras_repairs.first_step import checked_step
from tfdist.keras_repairs.first_step.rounding_bounds import Finding
from tfdist.keras_repairs.first_step.step_check import Outcome, StepCheck
from tfdist.keras_repairs.optimizer import gradient_reduction
from tfdist.keras_repairs.tensor_parallel import position_slices
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired")


def classifier(**compiled: Any) -> keras.Model:
    keras.utils.set_random_seed(4)
    inputs = keras.Input((6,))
    hidden = layers.BatchNormalization(synchronized=True)(layers.Dense(5, activation="tanh")(inputs))
    model = keras.Model(inputs, layers.Dense(3)(layers.Dropout(0.3, seed=2)(hidden)))
    model.compile(
        **{
            "optimizer": keras.optimizers.Adam(0.01),
            "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "metrics": ["accuracy"],
            **compiled,
        }
    )
    return model


def fitted(model: keras.Model, samples: int = 33) -> list[Any]:
    history = model.fit(*numbers(samples), batch_size=16, epochs=2, shuffle=False, verbose=0).history
    return [*(history[name] for name in sorted(history)), *model.get_weights()]


def assert_close(expected: list[Any], found: list[Any]) -> None:
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


def test_strict_refuses_it_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_reduction, "reduce_gradients", list)
    with mirrored(2).scope():
        model = classifier()
    before = model.get_weights()
    refused = pytest.raises(UnsupportedError, match="differed.*--strict")
    with mirrored(2).scope(), checking(mirrored(2)), strictly(mirrored(2)), refused:
        fitted(model)
    assert_close(before, model.get_weights())


def test_what_even_whole_steps_do_not_make_right_is_refused() -> None:
    """A step that adds up in Python, beside variables, what it has seen."""
    seen: list[float] = []

    class Remembering(keras.Model):
        def train_step(self, data: Any) -> Any:
            seen.append(1.0)
            x, y = data
            with tf.GradientTape() as tape:
                loss = ops.mean(ops.square(self(x)[:, 0] - ops.cast(y, "float32"))) * float(len(seen))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    with mirrored(2).scope(), checking(mirrored(2)):
        inputs = keras.Input((6,))
        model = Remembering(inputs, layers.Dense(1)(inputs))
        model.compile(keras.optimizers.SGD(0.01))
        with pytest.raises(UnsupportedError, match="even with the whole step"):
            fitted(model)


def test_it_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the bit: weights, slots, metrics, seeds, and what Python and NumPy draw next."""
    checked: list[Finding | str | None] = []
    original = StepCheck.run

    def noted(self: StepCheck, *given: Any) -> Finding | str | None:
        checked.append(original(self, *given))
        return checked[-1]

    monkeypatch.setattr(StepCheck, "run", noted)

    def trained() -> list[Any]:
        model = classifier()
        made = fitted(model)
        slots = [np.asarray(variable.value) for variable in model.optimizer.variables]
        return [*made, *slots, *model.evaluate(*numbers(33), verbose=0), np.random.rand(), random.random()]

    with mirrored(2).scope():
        expected = trained()
        assert not checked
        with checking(mirrored(2)):
            found = trained()
    assert checked == [None, None], "the steps of fit and of evaluate"
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


class OfPairs(keras.Model):
    def train_step(self, data: Any) -> Any:
        x, _ = data
        with tf.GradientTape() as tape:
            pairs = ops.reshape(self(x, training=True), (-1, 2, 3))
            loss = ops.mean(ops.square(pairs[:, 0] - pairs[:, 1]))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"distance": loss}


def test_metrics_that_its_first_eager_step_makes_begin_with_the_first_batch() -> None:
    """Those of a loss for each output."""

    def trained() -> list[float]:
        keras.utils.set_random_seed(3)
        inputs = keras.Input((6,))
        model = keras.Model(inputs, {"a": layers.Dense(1, name="a")(inputs), "b": layers.Dense(1, name="b")(inputs)})
        model.compile(keras.optimizers.SGD(0.01), loss={"a": "mse", "b": "mae"}, run_eagerly=True)
        model.optimizer.build(model.trainable_variables)
        x, y = numbers(9)
        history = model.fit(x, {"a": y, "b": y}, batch_size=4, shuffle=False, verbose=0).history
        return [value for name in sorted(history) for value in history[name]]

    expected = trained()
    with mirrored(2).scope(), checking(mirrored(2)):
        np.testing.assert_allclose(trained(), expected, rtol=1e-5)


def test_a_step_that_takes_pairs_of_rows_is_checked_with_the_whole_batch(caplog: pytest.LogCaptureFixture) -> None:
    """A few rows need not be pairs, on one device nor on some replica."""

    def trained() -> list[Any]:
        keras.utils.set_random_seed(4)
        inputs = keras.Input((6,))
        model = OfPairs(inputs, layers.Dense(3)(inputs))
        model.compile(keras.optimizers.SGD(0.1))
        return fitted(model, 32)

    expected = trained()
    with mirrored(2).scope(), checking(mirrored(2)), caplog.at_level(logging.INFO, "tfdist"):
        assert_close(expected, trained())
    assert "checked on its first batch" in caplog.text


def test_a_check_in_the_middle_of_an_accumulation_knows_what_all_replicas_have() -> None:
    def trained() -> list[Any]:
        keras.utils.set_random_seed(4)
        model = keras.Sequential([keras.Input((6,)), layers.Dense(3, activation="softmax")])
        model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "sparse_categorical_crossentropy")
        x, y = numbers(48)
        for labels in (y, y.astype("int32")):
            model.fit(x, labels, batch_size=16, shuffle=False, verbose=0)
        return list(model.get_weights())

    expected = trained()
    with mirrored(2).scope(), checking(mirrored(2)), strictly(mirrored(2)):
        assert_close(expected, trained())


def test_what_replicas_have_of_metrics_that_a_model_does_not_list_is_added_up() -> None:
    expected = of_one_replica("own_step_with_renamed_metrics", 33)
    with mirrored(2).scope(), checking(mirrored(2)), strictly(mirrored(2)):
        assert_same_case("own_step_with_renamed_metrics", expected, outcome("own_step_with_renamed_metrics", 33))


class Noisy(keras.Model):
    def call(self, x: Any, training: bool = False) -> Any:
        return super().call(x) + tf.random.normal((tf.shape(x)[0], 3))


def test_what_cannot_be_checked_is_said_or_refused(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context.context(), "_seed", None)

    def fit() -> None:
        inputs = keras.Input((6,))
        model = Noisy(inputs, layers.Dense(3)(inputs))
        model.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        fitted(model)

    with mirrored(2).scope(), checking(mirrored(2)), caplog.at_level(logging.INFO, "tfdist"):
        fit()
        assert "not checked on its first batch, as it draws random numbers" in caplog.text
        settings_of(mirrored(2)).check = "strict"
        with pytest.raises(UnsupportedError, match="draws random numbers.*--check strict"):
            fit()


def test_large_weights_that_are_cut_are_put_together_only_where_that_is_asked_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_step, "full_size", lambda model: checked_step.MOST_GATHERED + 1)
    with mirrored(2).scope(), checking(mirrored(2)), caplog.at_level(logging.INFO, "tfdist"):
        fitted(classifier())
        assert "not checked on its first batch, as its weights are cut between the workers" in caplog.text
        settings_of(mirrored(2)).check = "strict"
        fitted(classifier())
        assert "checked on its first batch, it is what one device computes" in caplog.text


def test_long_sequences_that_are_cut_are_compared_only_where_that_is_asked_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_slices, "group_of_context", lambda: None)
    monkeypatch.setattr(checked_step, "MOST_POSITIONS", 5)
    with mirrored(2).scope(), checking(mirrored(2)), caplog.at_level(logging.INFO, "tfdist"):
        monkeypatch.setattr(settings_of(mirrored(2)), "context", 2)
        fitted(classifier())
        assert "not checked on its first batch, as its sequences of 6 positions are cut" in caplog.text
        settings_of(mirrored(2)).check = "strict"
        fitted(classifier())
        assert "checked on its first batch, it is what one device computes" in caplog.text


OF_THE_STRATEGY = "asks the strategy how many replicas there are, also where one of them runs the step alone"
WRITES = "writes, and a step that does more than compute is not made once more"
LATER = "of a number in a later step that is none"
NN, LOSSES = "tensorflow.python.ops.nn_impl_distribute", "keras.src.losses"

IN_NO_STEP = {
    ("Trainer._get_metrics_result_or_logs", "own_step_with_means"): "reads metrics when an epoch ends",
    (f"{LOSSES}.loss.unscale_loss_for_distribution", "plain"): OF_THE_STRATEGY,
    (f"{LOSSES}.losses.convert_binary_labels_to_hinge", "hinge_of_other_labels"): "decides by later rows",
    (f"{NN}.compute_average_loss", "own_step_with_average_losses"): OF_THE_STRATEGY,
    (f"{NN}.scale_regularization_loss", "own_step_with_average_losses"): OF_THE_STRATEGY,
    ("StrategyBase.num_replicas_in_sync", "own_step_that_counts_replicas"): OF_THE_STRATEGY,
    ("ReplicaContextBase.num_replicas_in_sync", "own_step_that_counts_replicas"): OF_THE_STRATEGY,
    ("Variable._initialize", "metrics_that_begin_with_samples"): "makes what is there before the first step",
    ("Variable._direct_assign", "metrics_by_hand"): "assigns outside of steps",
    ("LossScaleOptimizer.apply", "loss_scaling_with_an_overflow"): LATER,
    ("LossScaleOptimizer._tf_apply", "loss_scaling_with_an_overflow"): LATER,
    ("CallbackList.__init__", "terminate_on_nan"): LATER,
    ("tensorflow.python.ops.script_ops._internal_py_func", "written_loss"): WRITES,
    ("tensorflow.python.ops.gen_data_flow_ops.queue_enqueue_v2", "queued_loss"): WRITES,
    ("tensorflow.python.ops.gen_lookup_ops.lookup_table_insert_v2", "counted_in_a_table"): WRITES,
    ("Function.__call__", "decorated_steps"): "without it replicas wait for one another in a function's lock",
    **{
        (f"TensorFlowTrainer.{kind}_on_batch", "on_batch"): "makes the batch of which a first step is checked"
        for kind in ("train", "test", "predict")
    },
}
"""Repairs without which no step shows what is wrong, with their cases, and why."""

IN_STEPS = [(path, case) for path, cases in TAKEN_OUT for case in cases if (path, case) not in IN_NO_STEP]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "case"), IN_STEPS)
def test_no_missing_repair_of_a_step_stays_unseen(path: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a repair of the table makes exact is exact without it, too, or refused: by whole steps."""
    expected = of_one_replica(case, 65)
    take_out(path, monkeypatch)
    with mirrored(3).scope(), checking(mirrored(3)):
        try:
            found = outcome(case, 65)
        except Exception as error:
            pytest.xfail(f"ends with an error: {type(error).__name__}")
        assert_same_case(case, expected, found)


class Centered(layers.Layer):
    def call(self, x: Any) -> Any:
        return x - ops.mean(x, axis=0, keepdims=True)


def centered_model() -> keras.Model:
    keras.utils.set_random_seed(4)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), Centered(), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def test_what_trials_overlook_is_found_in_fit_evaluate_and_predict(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trained() -> list[Any]:
        model = centered_model()
        x, y = numbers(33)
        made = fitted(model)
        return [*made, model.evaluate(x, y, batch_size=16, verbose=0), model.predict(x, batch_size=16, verbose=0)]

    expected = trained()
    monkeypatch.setattr(layer_calls, "try_out_layer", lambda *args, **kwargs: CallVerdict())
    with mirrored(3).scope(), checking(mirrored(3)), caplog.at_level(logging.WARNING, "tfdist"):
        assert_close(expected, trained())
    for step in ("train_step", "test_step", "predict_step"):
        assert f"Sequential.{step}" in caplog.text


@pytest.mark.parametrize(
    ("batches", "steps"), [("on_batch", 1), ("of_fits", 1), ("of_a_dataset", 1), ("of_a_dataset", 3)]
)
def test_a_batch_with_no_row_for_some_replica_leaves_the_step_to_be_checked(
    batches: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row alone is its own mean, on one device as on several."""

    def trained() -> list[Any]:
        model = centered_model()
        x, y = numbers(17)
        if batches == "of_a_dataset":
            data = tf.data.Dataset.from_tensor_slices((x, y))
            data = data.take(1).batch(1).concatenate(data.batch(16))
            model.steps_per_execution = steps
            return [model.fit(data, verbose=0).history["loss"][0], model.evaluate(data, verbose=0)]
        if batches == "on_batch":
            return [model.train_on_batch(x[:rows], y[:rows]) for rows in (1, 2, 17, 1)]
        return [
            model.fit(x[:rows], y[:rows], batch_size=16, verbose=0).history["loss"][0] for rows in (1, 2, 17)
        ] + [model.evaluate(x[:rows], y[:rows], batch_size=16, verbose=0) for rows in (1, 17)]

    expected = trained()
    monkeypatch.setattr(layer_calls, "try_out_layer", lambda *args, **kwargs: CallVerdict())
    with mirrored(3).scope(), checking(mirrored(3)):
        assert_close(expected, trained())


def test_what_overflows_where_a_graph_is_not_optimized_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def overflown(self: StepCheck, case: Any) -> Outcome:
        made = original(self, case)
        return replace(made, outputs={name: value * np.inf for name, value in made.outputs.items()})

    original = StepCheck._of_one_device
    monkeypatch.setattr(StepCheck, "_of_one_device", overflown)
    with mirrored(2).scope(), checking(mirrored(2)), caplog.at_level(logging.INFO, "tfdist"):
        classifier().predict(numbers(33)[0], batch_size=16, verbose=0)
    assert "it is what one device computes" in caplog.text
    assert "runs whole" not in caplog.text
