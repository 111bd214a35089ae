"""Branches and loops that the values of a batch decide: of few replicas alone they would be others.

Neither the first batch nor made-up samples reach the limit, so that trials and the check of the first step show
nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

import tfdist
from tests.exactness.comparison import assert_same
from tests.helpers.marks import slow
from tests.helpers.mirrored import checking, mirrored

pytestmark = pytest.mark.usefixtures("repaired")

BATCH, LIMIT = 4, 6.0
X = np.random.default_rng(3).uniform(-1, 1, (13, 3)).astype("float32")
X[6, 1], X[9, 0] = 9.0, 25.0
Y = np.linspace(-1, 1, 13, dtype="float32")[:, np.newaxis]
Y[5], Y[11] = 30.0, -20.0
"""One row of the second and of the third batch is beyond the limit, in which the other replica has none; and one of the
labels."""

GATHERED = "samples of all"
"""In what is said of a layer, a model or a step that takes the samples of all replicas."""


class Applied(layers.Layer):
    """A layer that is a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)

    def compute_output_spec(self, x: Any) -> keras.KerasTensor:
        """Known without a call, which may compute with values."""
        shape = (*x.shape[:-1], 1) if self.function is of_each_column else x.shape
        return keras.KerasTensor(shape, x.dtype)


@tf.function
def chosen_by_python(x: tf.Tensor) -> tf.Tensor:
    if tf.reduce_any(x > LIMIT):
        x = 2 * x
    return x


@tf.function
def repeated_by_python(x: tf.Tensor) -> tf.Tensor:
    while tf.reduce_max(x) > LIMIT:
        x = x / 2
    return x


def chosen_by_number(x: Any) -> Any:
    return tf.switch_case(tf.cast(ops.max(x) > LIMIT, "int32"), [lambda: x, lambda: x / 2])


def repeated_until_small(x: Any) -> Any:
    """The test itself reads what the turns before have left."""

    def halved(turns: Any, x: Any, _: Any) -> Any:
        return turns + 1, x / 2, tf.reduce_max(x) > 2 * LIMIT

    return tf.while_loop(lambda turns, _, is_large: is_large | (turns < 1), halved, (0, x, False))[1]


def in_a_loop_over_columns(x: Any) -> Any:
    """All rows at one place of it decide, of which each turn has another."""

    def turn(place: Any, x: Any) -> Any:
        return place + 1, tf.cond(tf.reduce_any(x[:, place] > LIMIT), lambda: x / 2, lambda: x)

    return tf.while_loop(lambda place, _: place < 3, turn, (0, x))[1]


@tf.function
def in_a_loop_by_python(x: tf.Tensor) -> tf.Tensor:
    for place in tf.range(3):
        for _ in tf.range(2):
            if tf.reduce_any(x[:, place] > LIMIT):
                x = x / 2
    return x


def large_ones(x: Any) -> Any:
    return tf.cast(tf.reduce_max(x) > LIMIT, "int32")


def sum_of_large_ones(x: Any) -> Any:
    """What `tf.map_fn` and `tf.foldl` return lies in a list of tensors meanwhile."""
    sums = tf.reduce_sum(tf.foldl(tf.maximum, x)) + tf.reduce_sum(tf.map_fn(tf.reduce_max, x))
    return tf.cond(sums > 2 * LIMIT, lambda: x / 2, lambda: x)


def by_a_size_of_values(x: Any) -> Any:
    columns = x[:, : large_ones(x) + 1]
    return tf.cond(tf.shape(columns)[1] > 1, lambda: x / 2, lambda: x)


def by_functions_of_libraries(x: Any) -> Any:
    return ops.cond(ops.max(x) > LIMIT, functools.partial(ops.tanh, x), functools.partial(tf.identity, x))


@tf.custom_gradient
def small_gradients(x: Any) -> Any:
    def gradient(upstream: Any) -> Any:
        return tf.cond(tf.reduce_any(tf.abs(upstream) > 10.0), lambda: upstream / 2, lambda: upstream)

    return tf.identity(x), gradient


BRANCHING: dict[str, Callable[[Any], Any]] = {
    "cond_in_a_loop": in_a_loop_over_columns,
    "cond_in_loops_by_python": in_a_loop_by_python,
    "fori_loop": lambda x: ops.fori_loop(0, large_ones(x), lambda _, x: x / 2, x),
    "most_turns": lambda x: tf.while_loop(lambda _: True, lambda x: x / 2, (x,), maximum_iterations=large_ones(x))[0],
    "keras_switch": lambda x: ops.switch(large_ones(x), [lambda x: x, lambda x: x / 2], x),
    "lists_of_tensors": sum_of_large_ones,
    "size_of_values": by_a_size_of_values,
    "size_of_the_batch": lambda x: tf.cond(tf.shape(x)[0] == BATCH, lambda: x / 2, lambda: x),
    "functions_of_libraries": by_functions_of_libraries,
    "cond": lambda x: tf.cond(tf.reduce_any(x > LIMIT), lambda: 2 * x, lambda: x),
    "keras_cond": lambda x: ops.cond(ops.max(x) > LIMIT, lambda: 2 * x, lambda: x),
    "switch_case": chosen_by_number,
    "python": chosen_by_python,
    "python_loop": repeated_by_python,
    "loop": repeated_until_small,
    "keras_loop": lambda x: ops.while_loop(lambda x: ops.max(x) > LIMIT, lambda x: (x / 2,), (x,))[0],
}


def dense() -> layers.Dense:
    return layers.Dense(1, kernel_initializer="ones")


def sequential(function: Callable[[Any], Any]) -> keras.Model:
    return keras.Sequential([keras.Input([3]), Applied(function), dense()])


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = dense()

    def call(self, x: Any) -> Any:
        return BRANCHING["cond"](self.dense(x))


def functional(kind: type[keras.Model] = keras.Model, of: Callable[[Any], Any] = lambda x: x) -> keras.Model:
    inputs = keras.Input([3])
    return kind(inputs, dense()(of(inputs)))


class SkippingStep(keras.Model):
    """Makes no step by a loss that is large."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)

        def applied() -> tf.Tensor:
            self.optimizer.apply(gradients, self.trainable_variables)
            return tf.constant(1.0)

        return {"loss": loss, "applied": tf.cond(loss < 50.0, applied, lambda: tf.constant(0.0))}


class SkippingInPython(keras.Model):
    """As above by numbers of Python, which a step that runs eagerly takes out of variables, too."""

    def __init__(self, *args: Any, limit: float = 50.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limit = limit
        self.counter = tf.Variable(0, trainable=False)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        factor = 0.5 if int(self.optimizer.iterations.numpy()) == 3 else 1.0
        self.counter.assign_add(1)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = [gradient * factor for gradient in tape.gradient(loss, self.trainable_variables)]
        if float(self.optimizer.learning_rate) < 1.0:
            print(f"{loss:.3f}")
        if self.is_small(loss):
            self.optimizer.apply(gradients, self.trainable_variables)
        return {"loss": loss}

    def is_small(self, loss: Any) -> bool:
        return float(loss) < self.limit


class SkippingByNumpy(SkippingInPython):
    def is_small(self, loss: Any) -> bool:
        return bool(np.less(loss.numpy(), self.limit))


class StepOfVariables(SkippingInPython):
    def is_small(self, loss: Any) -> bool:
        return bool(self.counter % 3 != 2) and float(self.trainable_variables[0].numpy()[0, 0]) < self.limit


class ClippedPrediction(keras.Model):
    def predict_step(self, data: Any) -> Any:
        return BRANCHING["cond"](self(data))


class Peak(keras.metrics.Metric):
    """The sum of errors, counted twice where one of the batch is large."""

    def __init__(self) -> None:
        super().__init__(name="peak")
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        errors = ops.sum(ops.abs(y_true - y_pred))
        self.total.assign_add(ops.cond(ops.max(y_true) > 25.0, lambda: 2 * errors, lambda: errors))

    def result(self) -> Any:
        return ops.convert_to_tensor(self.total)


def large_alone(y_true: Any, y_pred: Any) -> Any:
    errors = ops.mean(ops.square(y_true - y_pred), axis=-1)
    return ops.cond(ops.max(ops.abs(y_true)) > LIMIT, lambda: errors / 10, lambda: errors)


class MeasuredBatch(keras.Model):
    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        peak = tf.cond(tf.reduce_max(tf.abs(y)) > LIMIT, lambda: 1.0, lambda: 0.0)
        return {**super().compute_metrics(x, y, y_pred, sample_weight), "peak": peak}


class GatheredBefore(keras.Model):
    """What decides follows from rows that were gathered, of which each replica has its own again."""

    def __init__(self) -> None:
        super().__init__()
        self.branches, self.dense = [Applied(BRANCHING["cond"]) for _ in range(2)], dense()

    def call(self, x: Any) -> Any:
        return BRANCHING["keras_cond"](self.dense(self.branches[1](self.branches[0](x))))


def in_keras_layers(**options: Any) -> keras.Model:
    """A model whose function is called by a layer of Keras's."""
    return keras.Sequential([keras.Input([3]), layers.Dense(3, kernel_initializer="ones", **options), dense()])


def distributed_in_time() -> keras.Model:
    of_steps = [layers.Reshape([3, 1]), layers.TimeDistributed(Applied(BRANCHING["cond"])), layers.Flatten()]
    return keras.Sequential([keras.Input([3]), *of_steps, dense()])


MODELS: dict[str, Callable[[], keras.Model]] = {
    "activation": lambda: in_keras_layers(activation=BRANCHING["cond"]),
    "activity_regularizer": lambda: in_keras_layers(activity_regularizer=lambda x: ops.sum(BRANCHING["cond"](x)) / 10),
    "time_distributed": distributed_in_time,
    "measured": lambda: functional(MeasuredBatch),
    "gradient": lambda: keras.Sequential([keras.Input([3]), layers.Dense(3), Applied(small_gradients), dense()]),
    "gathered_before": GatheredBefore,
    **{name: lambda function=function: sequential(function) for name, function in BRANCHING.items()},
    "lambda": lambda: functional(of=layers.Lambda(BRANCHING["keras_cond"])),
    "subclassed": Subclassed,
    "step": lambda: functional(SkippingStep),
    "prediction": lambda: functional(ClippedPrediction),
    "loss": functional,
    "metric": functional,
}


def outcome(name: str, *, eagerly: bool) -> list[Any]:
    keras.utils.set_random_seed(1)
    model = MODELS[name]()
    loss = large_alone if name == "loss" else "mse"
    metrics = [Peak()] if name == "metric" else None
    model.compile(keras.optimizers.SGD(0.01), loss, metrics=metrics, run_eagerly=eagerly)
    # The logs of a step are those of its last batch.
    rows = 12 if name == "measured" else 13
    history = model.fit(X[:rows], Y[:rows], batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history
    evaluated = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    return [history, evaluated, model.predict(X, batch_size=BATCH, verbose=0).tolist()]


WHOLE = ["activation", "activity_regularizer", "time_distributed", "measured", "gradient"]
"""Models whose steps run whole: what decides stands outside of their own layers. Without a check they are refused."""

BY_DEFAULT = ["cond", "python_loop", "loop", "step", "prediction", "loss", "metric", "cond_in_loops_by_python"]
BY_DEFAULT += ["lists_of_tensors", "gradient", "gathered_before"]
EAGERLY = ["cond", "step", "loss", "python_number", "step_number", "activation", "metric"]
IN_PYTHON: dict[str, Callable[[Any], Any]] = {
    "python_bool": lambda x: 2 * x if tf.reduce_any(x > LIMIT) else x,
    "python_number": lambda x: 2 * x if float(tf.reduce_max(x)) > LIMIT else x,
    "numpy": lambda x: 2 * x if x.numpy().max() > LIMIT else x,
    "numpy_array": lambda x: 2 * x if np.max(x) > LIMIT else x,
}
STEPS_IN_PYTHON = {"step_number": SkippingInPython, "step_numpy": SkippingByNumpy}
ONLY_EAGERLY = [*IN_PYTHON, *STEPS_IN_PYTHON]

MODELS |= {name: lambda function=function: sequential(function) for name, function in IN_PYTHON.items()}
MODELS |= {name: lambda kind=kind: functional(kind) for name, kind in STEPS_IN_PYTHON.items()}


@pytest.mark.parametrize(
    ("name", "eagerly"),
    [
        *((name, False) if name in BY_DEFAULT else slow(name, False) for name in MODELS if name not in ONLY_EAGERLY),
        # TensorFlow returns no tuple of a loop that has a limit, run eagerly.
        *((name, True) if name in EAGERLY else slow(name, True) for name in MODELS if name != "most_turns"),
    ],
)
def test_numbers_of_one_replica(name: str, eagerly: bool) -> None:
    expected = outcome(name, eagerly=eagerly)
    checked = checking(mirrored(2)) if name in WHOLE else contextlib.nullcontext()
    with mirrored(2).scope(), checked:
        assert_same(expected, outcome(name, eagerly=eagerly), relative=1e-5)


class Counting(layers.Layer):
    """Chooses by how often it has been called for training."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign_add(1.0)
        return ops.cond(ops.convert_to_tensor(self.calls) > 2, lambda: x / 2, lambda: x)


def larger_rows(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.cond(tf.reduce_any(row > LIMIT), lambda: row / 2, lambda: row), x)


def larger_rows_at_once(x: Any) -> Any:
    return tf.vectorized_map(lambda row: tf.cond(tf.reduce_any(row > LIMIT), lambda: row / 2, lambda: row), x)


def of_each_column(x: Any) -> Any:
    """The number of a turn decides."""

    def turn(place: Any, total: Any) -> Any:
        return place + 1, total + tf.cond(place % 2 == 0, lambda: x[:, place], lambda: 2 * x[:, place])

    return tf.while_loop(lambda place, _: place < 3, turn, (0, tf.zeros_like(x[:, 0])))[1][:, tf.newaxis]


def where_there_are_any(x: Any) -> Any:
    return tf.cond(tf.shape(x)[0] > 0, lambda: x / 2, lambda: x)


def by_those_of_all(x: Any) -> Any:
    is_large = tfdist.gathered(lambda x: tf.reduce_any(x > LIMIT))(x)
    return tf.cond(is_large, lambda: 2 * x, lambda: x)


SHARED_OUT: dict[str, Callable[[], Any]] = {
    "counter": Counting,
    **{
        function.__name__: lambda function=function: Applied(function)
        for function in (larger_rows, larger_rows_at_once, of_each_column, where_there_are_any, by_those_of_all)
    },
}


class Halving(keras.optimizers.SGD):
    """Halves gradients that are large, of those of all replicas."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        halved = tf.cond(tf.norm(gradient) > 20.0, lambda: gradient / 2, lambda: gradient)
        super().update_step(halved, variable, learning_rate)


def test_what_all_gradients_decide_is_shared_out() -> None:
    """Otherwise the step is refused, which is not checked."""

    def fitted() -> list[float]:
        keras.utils.set_random_seed(1)
        model = functional()
        model.compile(Halving(0.01), "mse")
        losses: list[float] = model.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted()
    with mirrored(2).scope():
        assert_same(expected, fitted(), relative=1e-5)


class CountingInPython(Counting):
    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign_add(1.0)
        # TensorFlow tries out whether a shape is one of numbers, also by NumPy's functions.
        x = keras.random.dropout(x, 0.1, seed=self.seeds) * tf.ones(tf.shape(x))
        return x / 2 if self.calls.numpy() > 2 else x

    def compute_output_spec(self, x: Any, training: bool = False) -> keras.KerasTensor:
        return keras.KerasTensor(x.shape, x.dtype)


def test_steps_that_variables_decide_in_python_are_shared_out(caplog: pytest.LogCaptureFixture) -> None:
    def fitted() -> list[float]:
        keras.utils.set_random_seed(1)
        inputs = keras.Input([3])
        model = StepOfVariables(inputs, dense()(CountingInPython()(inputs)))
        model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=True)
        losses: list[float] = model.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted()
    with caplog.at_level("INFO"), mirrored(2).scope():
        assert_same(expected, fitted(), relative=1e-5)
    assert GATHERED not in caplog.text


@pytest.mark.parametrize("name", SHARED_OUT)
def test_what_the_batch_does_not_decide_is_shared_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def fitted() -> list[float]:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input([3]), SHARED_OUT[name](), dense()])
        model.compile(keras.optimizers.SGD(0.01), "mse")
        losses: list[float] = model.fit(X, Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history["loss"]
        return losses

    expected = fitted()
    with caplog.at_level("INFO"), mirrored(2).scope():
        assert_same(expected, fitted(), relative=1e-5)
    assert GATHERED not in caplog.text
