"""`jit_compile=True` on several replicas: what the table of exact features shows slowly, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.exactness.cases import outcome
from tests.exactness.comparison import assert_same, assert_same_case
from tests.exactness.table import classifier, numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.warn_once import warn_once
from tfdist.keras_repairs.forward import xla
from tfdist.keras_repairs.loop import xla_step
from tfdist.runtime.strategy_settings import settings_of

pytestmark = pytest.mark.usefixtures("repaired", "float64")


def powers(values: list[tf.Tensor], steps: tf.Tensor, mask: Any) -> tuple[tf.Tensor, Any, dict[int, tf.Tensor]]:
    """A loop over tensors of two kinds, and what goes with it."""
    _, result = tf.while_loop(
        lambda step, _: step < steps, lambda step, x: (step + 1, x * values[1]), [0, values[0]], maximum_iterations=9
    )
    return result, mask, {7: steps + 1}


def test_a_compiled_loop_has_a_gradient() -> None:
    compiled = tf.function(powers, jit_compile=True, autograph=False)
    first, second = tf.constant([1.0, 2.0]), tf.constant([3.0, 0.5])

    @tf.function(autograph=False)
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([first, second])
            result, mask, steps = xla.call_with_loops(compiled, [first, second], tf.constant(3), None)
            assert mask is None
        return result, steps[7], tape.gradient(result, [first, second])

    result, steps, (by_first, by_second) = gradients()
    np.testing.assert_allclose(result, first * second**3)
    assert int(steps) == 4
    np.testing.assert_allclose(by_first, second**3)
    np.testing.assert_allclose(by_second, 3 * first * second**2)


def test_what_has_no_loop_is_called_as_it_is() -> None:
    calls: list[bool] = []

    def double(x: tf.Tensor) -> tf.Tensor:
        calls.append(True)
        return 2 * x

    compiled = tf.function(double, jit_compile=True, autograph=False)
    assert float(xla.call_with_loops(compiled, tf.constant(2.0))) == 4
    assert len(calls) == 1


def assert_same_on_three(make: Callable[[], Any]) -> None:
    keras.utils.set_random_seed(1)
    one = make()
    keras.utils.set_random_seed(1)
    with mirrored(3).scope():
        assert_same(one, make())


def test_batches_whose_rows_are_known() -> None:
    """Of a batch of four the replicas get two, one and one: with padding, one target would count for two outputs."""
    x, y = (np.random.default_rng(1).normal(size=(4, size)) for size in (6, 2))

    def outcome() -> list[Any]:
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse", jit_compile=True)
        losses = [float(model.train_on_batch(x, y)) for _ in range(3)]
        return [losses, float(model.test_on_batch(x, y)), *(weight.tolist() for weight in model.get_weights())]

    assert_same_on_three(outcome)


def test_rows_of_a_table_that_occur_several_times() -> None:
    """Adam squares the gradient of each occurrence separately, also after a loop."""
    ids = np.random.default_rng(1).integers(0, 4, (4, 7))

    def outcome() -> list[Any]:
        parts = [keras.layers.Embedding(4, 3), keras.layers.SimpleRNN(2), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((7,), dtype="int32"), *parts])
        model.compile(keras.optimizers.Adam(0.1), "mse", jit_compile=True)
        history = model.fit(ids, ids[:, :1], batch_size=4, epochs=2, verbose=0, shuffle=False).history
        return [history, *(weight.tolist() for weight in model.get_weights())]

    assert_same_on_three(outcome)


def test_convolutions_where_a_replica_has_no_sample() -> None:
    x, y = (np.random.default_rng(1).normal(size=(5, *shape)) for shape in ((8, 2), (2,)))

    def outcome() -> list[Any]:
        layers = keras.layers
        parts = [layers.Conv1D(3, 3), layers.MaxPooling1D(2), layers.Flatten(), layers.Dense(2)]
        model = keras.Sequential([keras.Input((8, 2)), *parts])
        model.compile("sgd", "mse", jit_compile=True)
        history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False).history
        return [history, *(weight.tolist() for weight in model.get_weights())]

    assert_same_on_three(outcome)


class Hidden(keras.layers.Layer):
    """Calls a layer that Keras does not know of."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hidden = (lambda layer: lambda: layer)(keras.layers.BatchNormalization(name="hidden"))

    def build(self, shape: Any) -> None:
        self.hidden().build(shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.hidden()(inputs, training=training)


def test_a_layer_in_which_replicas_meet_is_not_compiled(caplog: pytest.LogCaptureFixture) -> None:
    x, y = numbers(9)

    def outcome() -> list[Any]:
        model = keras.Sequential([keras.Input((6,)), Hidden(), keras.layers.Dense(3, "softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=True)
        history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False).history
        return [history, *(weight.tolist() for weight in model.get_weights())]

    warn_once.cache_clear()
    with caplog.at_level(logging.WARNING, "tfdist"):
        assert_same_on_three(outcome)
    assert "XLA does not compile the layer 'hidden'" in caplog.text


def compiles(strategy: tf.distribute.Strategy, **options: Any) -> bool:
    """Whether a model that is compiled under a strategy is compiled with XLA."""
    with strategy.scope():
        model = classifier()
        model.compile("sgd", "sparse_categorical_crossentropy", **options)
    return bool(model.jit_compile)


def test_auto_is_on_several_replicas_what_it_is_on_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = mirrored(2)
    assert not compiles(strategy)
    monkeypatch.setattr(settings_of(strategy), "emulates_xla", True)
    assert compiles(strategy)
    assert not compiles(strategy, run_eagerly=True)
    assert not compiles(strategy, jit_compile=False)


def test_auto_leaves_out_models_with_layers_that_xla_cannot_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = mirrored(2)
    monkeypatch.setattr(settings_of(strategy), "emulates_xla", True)
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,), dtype="string"), keras.layers.StringLookup(vocabulary=["a"])])
        model.compile("sgd", "mse")
    assert not model.jit_compile


@pytest.mark.parametrize(("asked", "says"), [("on", True), ("off", False)])
def test_what_is_asked_for_holds_whatever_the_script_says(
    asked: Literal["on", "off"], says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = mirrored(2)
    monkeypatch.setattr(settings_of(strategy), "jit", asked)
    assert all(compiles(strategy, jit_compile=value) is says for value in ("auto", True, False))
    assert not compiles(strategy, jit_compile=True, run_eagerly=True)


@pytest.mark.parametrize(("function", "is_dynamic"), [(tf.boolean_mask, True), (tf.where, False)])
def test_sizes_that_depend_on_values_show_in_a_program(function: Callable[..., tf.Tensor], is_dynamic: bool) -> None:
    """Workers could not sum or gather them in a step that is compiled as a whole."""

    def chosen(x: tf.Tensor) -> tf.Tensor:
        return function(x, x > 0) if is_dynamic else function(x > 0, x, -x)

    compiled = tf.function(chosen, jit_compile=True, autograph=False)
    program = compiled.experimental_get_compiler_ir(tf.ones([16]))(stage="hlo", device_name="/device:CPU:0")
    assert bool(xla_step.DYNAMIC_SIZE.search(program)) is is_dynamic


@pytest.mark.bound(400)
@pytest.mark.parametrize(
    "name",
    ["dropout", "sparse_gradients_of_an_embedding", slow("batch_normalization"), slow("own_train_step_and_test_step")],
)
def test_auto_gives_the_numbers_of_one_device_that_is_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for strategy in (tf.distribute.get_strategy(), mirrored(2)):
        monkeypatch.setattr(settings_of(strategy), "emulates_xla", True)
    one = outcome(name, 65, of_training_alone=True)
    with mirrored(2).scope():
        assert_same_case(name, one, outcome(name, 65, of_training_alone=True))
