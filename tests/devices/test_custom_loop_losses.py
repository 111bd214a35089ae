"""TensorFlow's guide to own training loops: losses without a reduction, averaged by hand, on uneven batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.devices.repair_removal import take_out
from tests.exactness.table import BATCH, classifier, numbers
from tests.helpers.marks import slow
from tests.helpers.mirrored import mirrored
from tfdist.keras_repairs.base.keras_differences import DIFFERENCES

pytestmark = pytest.mark.usefixtures("repaired", "float64")

Numbers = tuple[list[float], list[Any]]

of_means = pytest.mark.skipif(
    not DIFFERENCES.activity_is_of_a_row, reason="the mean of the replicas' sums is not their sum"
)


def trained(strategy: tf.distribute.Strategy, samples: int, activity: str | None = None, **size: int) -> Numbers:
    """The losses of the steps and the weights in the end."""
    keras.utils.set_random_seed(3)
    data = tf.data.Dataset.from_tensor_slices(numbers(samples)).batch(BATCH)
    with strategy.scope():
        model = classifier(kernel_regularizer="l2", activity_regularizer=activity)
        optimizer = keras.optimizers.SGD(0.5)
        entropy = keras.losses.SparseCategoricalCrossentropy(reduction=None)

    def step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(entropy(y, model(x, training=True)), **size)
            loss += tf.nn.scale_regularization_loss(model.losses)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    @tf.function
    def of_all(batch: Any) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batch,)), axis=None)

    losses = [float(of_all(batch)) for _ in range(2) for batch in strategy.experimental_distribute_dataset(data)]
    return losses, [weight.tolist() for weight in model.get_weights()]


def is_same(one: Numbers, several: Numbers) -> bool:
    return all(
        np.allclose(b, a, rtol=1e-12, atol=1e-12)
        for a, b in zip(keras.tree.flatten(one), keras.tree.flatten(several), strict=True)
    )


SIZES = [slow(2, 64), slow(3, 64), (2, 65), slow(3, 65), slow(2, 81), (3, 81)]


@pytest.mark.parametrize(("replicas", "samples"), SIZES)
def test_the_losses_of_one_replica(replicas: int, samples: int) -> None:
    assert is_same(trained(tf.distribute.get_strategy(), samples), trained(mirrored(replicas), samples))


@of_means
def test_each_replica_reads_the_terms_that_its_own_call_has_added() -> None:
    """After `compute_average_loss`, in which the replicas meet and the other one has called the model."""
    expected = trained(tf.distribute.get_strategy(), 65, activity="l2")
    assert is_same(expected, trained(mirrored(2), 65, activity="l2"))


class BuiltByItsCall(keras.layers.Layer):
    """Holds a layer that Keras builds by calling it in a graph of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def build(self, shape: Any) -> None:
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.inner(x)


class Inner(keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(2, activity_regularizer="l2")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.dense(x)


def test_a_layer_that_is_built_by_its_call_adds_its_terms_once() -> None:
    strategy = mirrored(2)
    with strategy.scope():
        layer = BuiltByItsCall()

    def terms() -> tf.Tensor:
        layer(tf.ones((4, 3)))
        return tf.stack(layer.losses)

    assert {value.shape for value in strategy.experimental_local_results(tf.function(strategy.run)(terms))} == {(1,)}


def shared_penalties(rows: int, read: Callable[[Callable[[], tf.Tensor]], tf.Tensor]) -> list[float]:
    """Replicas' shares of the mean of the squares of `rows` ones each; of one of them no row is looked at."""
    strategy = mirrored(2)
    with strategy.scope():
        layer = keras.layers.Identity(activity_regularizer=keras.regularizers.L2(1.0))
        other = keras.layers.Softmax()

    def share() -> tf.Tensor:
        other(layer(tf.ones((rows, 1)))[:0])
        return read(lambda: tf.nn.scale_regularization_loss(tf.add_n(layer.losses)))

    return [float(each) for each in strategy.experimental_local_results(tf.function(strategy.run)(share))]


def in_branch(penalty: Callable[[], tf.Tensor]) -> tf.Tensor:
    return tf.cond(tf.random.uniform([]) < 2.0, penalty, lambda: tf.zeros([], keras.config.floatx()))


READ: dict[str, Callable[[Callable[[], tf.Tensor]], tf.Tensor]] = {
    "in_place": lambda penalty: penalty(),
    "in_branch": in_branch,
    "in_function": lambda penalty: tf.function(penalty)(),
}


@of_means
@pytest.mark.parametrize("name", READ)
def test_a_penalty_is_shared_out_wherever_it_is_read_and_whatever_else_is_called(name: str) -> None:
    assert shared_penalties(4, READ[name]) == [0.5, 0.5]


@of_means
def test_the_rows_of_a_penalty_in_float16_may_be_more_than_it_can_count() -> None:
    keras.config.set_floatx("float16")
    assert shared_penalties(40_000, READ["in_place"]) == [0.5, 0.5]


def test_a_size_that_the_script_gives() -> None:
    size = {"global_batch_size": BATCH}
    assert is_same(trained(tf.distribute.get_strategy(), 65, **size), trained(mirrored(3), 65, **size))


def test_without_the_repair_uneven_batches_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(tf.distribute.get_strategy(), 81)
    take_out("tensorflow.python.ops.nn_impl_distribute.compute_average_loss", monkeypatch)
    assert is_same(trained(tf.distribute.get_strategy(), 64), trained(mirrored(2), 64))
    assert not is_same(expected, trained(mirrored(2), 81))
