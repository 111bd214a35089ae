"""Optimizers in a custom training loop, where each replica has another part of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("repaired")

GRADIENTS = tf.constant([[0.5, -1.0], [2.0, 0.25], [-1.5, 1.0], [0.125, 3.0], [1.0, 1.0], [-0.5, 0.75]])
"""The gradients of the global batches, one after another."""

PARTS = {1: [1.0], 3: [0.5, -0.25, 0.75]}
"""The part of each replica; they add up to one."""


class Noting(keras.optimizers.Optimizer):
    """Plain descent, which also keeps gradients in variables of other shapes than those that it trains."""

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self.seen, self.left, self.last = (
            self.add_variable((), aggregation="only_first_replica", name=name) for name in ("seen", "left", "last")
        )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_sub(variable, gradient * tf.cast(learning_rate, gradient.dtype))
        self.assign_add(self.seen, tf.reduce_sum(gradient))
        self.assign_sub(self.left, tf.reduce_sum(gradient))
        self.assign(self.last, tf.reduce_sum(gradient))


def decaying() -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.1, weight_decay=0.1, gradient_accumulation_steps=2)


def overwriting() -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)


def scaling() -> keras.optimizers.Optimizer:
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))


def noting() -> keras.optimizers.Optimizer:
    return Noting(0.1, gradient_accumulation_steps=2)


def step_of(optimizer: keras.optimizers.Optimizer, variable: keras.Variable, replicas: int) -> Any:
    """A compiled step: takes the gradient of the global batch, and what is added to that of the last replica."""
    parts = tf.constant(PARTS[replicas])

    def on_replica(gradient: tf.Tensor, added: tf.Tensor) -> None:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        last = tf.cast(tf.equal(replica, replicas - 1), tf.float32)
        optimizer.apply([gradient * parts[replica] + tf.math.multiply_no_nan(added, last)], [variable])

    return tf.function(lambda gradient, added: mirrored(replicas).run(on_replica, args=(gradient, added)))


def values_after(make: Callable[[], keras.optimizers.Optimizer], replicas: int, infinite: int) -> list[np.ndarray]:
    """What is trained and the optimizer's own, after all `GRADIENTS`; that of one step is infinite on one replica."""
    with mirrored(replicas).scope():
        variable, optimizer = keras.Variable([1.0, 2.0]), make()
        optimizer.build([variable])
    step = step_of(optimizer, variable, replicas)
    for number, gradient in enumerate(GRADIENTS):
        step(gradient, tf.constant(np.inf if number == infinite else 0.0))
    trained = [variable, *(v for v in optimizer.variables if "accumulator" not in v.path)]
    return [np.asarray(v.numpy()) for v in trained]


@pytest.mark.parametrize(
    ("make", "infinite"),
    [(decaying, -1), (overwriting, -1), (noting, -1), (scaling, 3)],
    ids=["decaying", "overwriting", "noting", "scaling"],
)
def test_numbers_of_one_replica(make: Callable[[], keras.optimizers.Optimizer], infinite: int) -> None:
    expected = values_after(make, 1, infinite)
    assert all(np.isfinite(value).all() for value in expected)
    for one, several in zip(expected, values_after(make, 3, infinite), strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("momentum", "kernel"), [(0.0, "ResourceApplyGradientDescent"), (0.9, "ResourceApplyKerasMomentum")]
)
def test_sgd_updates_in_one_pass(momentum: float, kernel: str) -> None:
    with mirrored(3).scope():
        variable, optimizer = keras.Variable([1.0, 2.0]), keras.optimizers.SGD(0.1, momentum=momentum)
        optimizer.build([variable])
    traced = step_of(optimizer, variable, 3).get_concrete_function(GRADIENTS[0], tf.constant(0.0))
    assert sum(operation.type == kernel for operation in traced.graph.get_operations()) == 3


def values_of_copies(variable: keras.Variable) -> list[np.ndarray]:
    return [copy.numpy() for copy in mirrored(3).experimental_local_results(variable.value)]


def test_gradients_with_a_part_of_each_replica_are_summed_outside_of_them() -> None:
    with mirrored(3).scope():
        variable, optimizer = keras.Variable([1.0, 2.0]), keras.optimizers.SGD(1.0)
        parts = mirrored(3).experimental_distribute_values_from_function(
            lambda context: tf.fill([2], context.replica_id_in_sync_group + 1.0)
        )
        optimizer.apply([parts], [variable])
    np.testing.assert_array_equal(values_of_copies(variable), [[-5.0, -4.0]] * 3)


def test_every_copy_takes_a_gradient_from_outside_of_the_replicas() -> None:
    with mirrored(3).scope():
        variable, left = keras.Variable([1.0, 2.0]), keras.Variable([3.0])
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build([variable, left])
        optimizer.apply([np.array([0.5, 1.0]), None])
    np.testing.assert_array_equal(values_of_copies(variable), [[0.5, 1.0]] * 3)
    np.testing.assert_array_equal(values_of_copies(left), [[3.0]] * 3)


def losses_while_a_scale_grows(
    strategy: tf.distribute.Strategy, *, in_a_loop: bool = False, nested: bool = False
) -> list[float]:
    """Of steps that are traced before the optimizer is built."""
    with strategy.scope():
        weight = keras.Variable([2.0, -1.0])
        optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=16.0, dynamic_growth_steps=2
        )

    def on_replica() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(weight)) / tf.distribute.get_strategy().num_replicas_in_sync
            scaled = (tf.function(optimizer.scale_loss) if nested else optimizer.scale_loss)(loss)
        optimizer.apply_gradients([(tape.gradient(scaled, weight.value), weight)])
        return loss

    @tf.function
    def step() -> tf.Tensor:
        total = tf.constant(0.0)
        for _ in tf.range(1) if in_a_loop else range(1):
            total = strategy.reduce("SUM", strategy.run(on_replica), axis=None)
        return total

    return [float(step()) for _ in range(7)]


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_loss_scale_grows_in_a_step_that_was_traced_before_its_optimizer_was_built(replicas: int) -> None:
    expected = losses_while_a_scale_grows(tf.distribute.OneDeviceStrategy("/cpu:0"))
    np.testing.assert_allclose(losses_while_a_scale_grows(mirrored(replicas)), expected, rtol=1e-6)


@pytest.mark.parametrize("nested", [False, True])
def test_a_loss_scale_that_a_loop_would_not_see_grow_is_refused(nested: bool) -> None:
    with pytest.raises(UnsupportedError, match=r"optimizer\.build\(model\.trainable_variables\)"):
        losses_while_a_scale_grows(mirrored(2), in_a_loop=True, nested=nested)
