"""Adam updates large variables in one pass over memory, and with the numbers of Keras's update."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.optimizer import variable_updates

pytestmark = pytest.mark.usefixtures("repaired")

ADAM, ADAM_W = keras.optimizers.Adam, keras.optimizers.AdamW
OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "plain": partial(ADAM, 0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-3),
    "decaying": partial(ADAM_W, 0.1, weight_decay=0.1),
    "accumulating": partial(ADAM, 0.1, gradient_accumulation_steps=2),
    "averaging": partial(ADAM, 0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "scaling": lambda: keras.optimizers.LossScaleOptimizer(ADAM(0.1)),
    "by a schedule": lambda: ADAM(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    "amsgrad": partial(ADAM, 0.1, amsgrad=True),
}
VALUES = np.linspace(-1.0, 1.0, 15).reshape(3, 5)


class Clipped(ADAM):
    """Bounds what a step changes."""

    def assign_sub(self, variable: Any, value: Any) -> None:
        super().assign_sub(variable, keras.ops.clip(value, -0.01, 0.01))


OPTIMIZERS["of a user's own"] = partial(Clipped, 0.1)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variable_updates, "_COMPILED_FROM", VALUES.size)


def made(make: Callable[[], keras.optimizers.Optimizer], replicas: int) -> tuple[Any, list[keras.Variable]]:
    """An optimizer of two variables of a shape, one of another dtype, and one that is too small to be compiled."""
    with mirrored(replicas).scope():
        variables = [keras.Variable(VALUES), keras.Variable(2 * VALUES)]
        variables += [keras.Variable(VALUES, dtype="float64"), keras.Variable(VALUES[:1])]
        optimizer = make()
        optimizer.build(variables)
    return optimizer, variables


def step_of(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable], replicas: int) -> Any:
    def on_replica(gradient: tf.Tensor) -> None:
        parts = [tf.cast(gradient[: v.shape[0]], v.dtype) / replicas for v in variables]
        optimizer.apply(parts, variables)

    return lambda gradient: mirrored(replicas).run(on_replica, args=(gradient,))


def values_after(make: Callable[[], keras.optimizers.Optimizer], replicas: int, is_eager: bool) -> list[np.ndarray]:
    """What is trained, and the optimizer's own, after five steps."""
    optimizer, variables = made(make, replicas)
    step = step_of(optimizer, variables, replicas)
    step = step if is_eager else tf.function(step)
    generator = np.random.default_rng(0)
    for _ in range(5):
        step(tf.constant(generator.normal(size=VALUES.shape)))
    own = [variable for variable in optimizer.variables if "accumulator" not in variable.path]
    return [np.asarray(variable.numpy()) for variable in (*variables, *own)]


@pytest.mark.parametrize(("name", "is_eager"), [*((name, False) for name in OPTIMIZERS), ("plain", True)])
def test_numbers_of_one_replica(name: str, is_eager: bool) -> None:
    expected = values_after(OPTIMIZERS[name], 1, is_eager)
    for one, several in zip(expected, values_after(OPTIMIZERS[name], 3, is_eager), strict=True):
        # As precise as the dtype is.
        tolerance = 1e-13 if one.dtype == np.float64 else 1e-6
        np.testing.assert_allclose(several, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("name", "compiled"), [("plain", 3), ("decaying", 3), ("amsgrad", 0), ("of a user's own", 0)])
def test_large_variables_are_updated_in_one_operation(name: str, compiled: int) -> None:
    optimizer, variables = made(OPTIMIZERS[name], 2)
    step = tf.function(step_of(optimizer, variables, 2))
    graph = step.get_concrete_function(tf.TensorSpec(VALUES.shape, tf.float64)).graph
    calls = [each for each in graph.get_operations() if each.type.endswith("PartitionedCall")]
    assert len(calls) == 2 * compiled
    assert all(each.get_attr("_XlaMustCompile") for each in calls)


def test_one_function_serves_all_variables_of_a_shape() -> None:
    traced = variable_updates._compiled_adam.experimental_get_tracing_count()
    optimizer, variables = made(OPTIMIZERS["plain"], 2)
    tf.function(step_of(optimizer, variables, 2)).get_concrete_function(tf.TensorSpec(VALUES.shape, tf.float64))
    assert variable_updates._compiled_adam.experimental_get_tracing_count() - traced <= 2


def test_a_debugger_sees_all_operations() -> None:
    tf.debugging.enable_check_numerics()
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN|Inf"):
            optimizer, variables = made(OPTIMIZERS["plain"], 2)
            tf.function(step_of(optimizer, variables, 2))(tf.fill(VALUES.shape, tf.constant(np.nan, tf.float64)))
    finally:
        tf.debugging.disable_check_numerics()
