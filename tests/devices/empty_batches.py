"""A loop by hand over networks of convolutions, whose last batch leaves a replica without a row: prints the losses.

`python -m tests.devices.empty_batches` prints two JSON lists: those of one device, and those of two replicas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tests.helpers.mirrored import mirrored
from tfdist import keras_repairs

layers = keras.layers


def networks() -> dict[tuple[int, ...], list[layers.Layer]]:
    """New layers by the shape of their inputs."""
    return {
        (8, 2): [layers.Conv1D(3, 3), layers.MaxPooling1D(), layers.LSTM(4)],
        (10, 10, 2): [
            layers.DepthwiseConv2D(3),
            layers.Conv2D(3, 3, strides=2),
            layers.Conv2D(3, 2, activation="relu"),
            layers.MaxPooling2D(),
        ],
        (4, 4, 4, 2): [layers.Conv3D(3, 2), layers.MaxPooling3D((2, 1, 2))],
    }


def losses(
    strategy: tf.distribute.Strategy,
    shape: tuple[int, ...],
    stack: Sequence[layers.Layer],
    *,
    compiled: bool = False,
    eagerly: bool = False,
) -> list[float]:
    x = np.random.default_rng(1).normal(size=(5, *shape)).astype("float32")
    with strategy.scope():
        model = keras.Sequential([keras.Input(shape), *stack, layers.Flatten(), layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.01)

    def gradients_of(rows: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            each = tf.square(model(rows, training=True)[:, 0] - 1.0)
            loss = tf.nn.compute_average_loss(each, global_batch_size=4)
        return loss, tape.gradient(loss, model.trainable_variables)

    of_batch = gradients_of if eagerly else tf.function(gradients_of, jit_compile=compiled)

    def on_replica(rows: tf.Tensor) -> tf.Tensor:
        loss, gradients = of_batch(rows)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def step(rows: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(on_replica, args=(rows,)), axis=None)

    made = step if eagerly else tf.function(step)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(4))
    return [float(made(rows)) for _ in range(2) for rows in data]


def main() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    keras_repairs.install()
    for strategy in (tf.distribute.OneDeviceStrategy("/cpu:0"), mirrored(2)):
        keras.utils.set_random_seed(1)
        by_kernels = [losses(strategy, shape, stack) for shape, stack in networks().items()]
        line, images, _ = networks().items()
        by_xla = losses(strategy, *line, compiled=True)
        print(json.dumps([by_kernels, by_xla, losses(strategy, *images, eagerly=True)]))


if __name__ == "__main__":
    main()
