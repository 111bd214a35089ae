"""What a script does outside of the steps of `fit`, with the model, its optimizer or its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.table import BATCH, case

layers = keras.layers


def fitted_by_numpy(optimizer: Any, samples: int, wrapped: Callable[..., Any] = lambda step: step) -> dict[str, Any]:
    """A linear model, with gradients by NumPy for its one layer, and a sparse one for its table."""
    generator = np.random.default_rng(7)
    x, y = generator.normal(size=(samples, 3)), generator.normal(size=(samples, 1))
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1, kernel_initializer="zeros")])
    table = keras.Variable(generator.normal(size=(5, 3)), name="table")
    variables = [*model.trainable_variables, table]
    model.compile(optimizer, "mse")
    optimizer.build(variables)
    step = wrapped(lambda *grads: optimizer.apply(grads, variables))
    losses = []
    for start in range(0, samples, BATCH):
        part, rows = slice(start, start + BATCH), tf.constant([start % 5, 3])
        error = keras.ops.convert_to_numpy(model(x[part])) - y[part]
        losses.append(float(np.mean(error**2)))
        slices = tf.IndexedSlices(tf.gather(tf.convert_to_tensor(table), rows), rows, tf.constant([5, 3]))
        step(tf.constant(2 * x[part].T @ error / len(error)), 2 * error.mean(0), slices)
    seen = keras.ops.convert_to_numpy(table).ravel().tolist()
    return {"model": model, "x": x, "y": y, "history": {"loss": losses}, "seen": seen}


@case("gradients by NumPy, given to an optimizer outside of `strategy.run`")
def gradients_of_numpy(samples: int) -> dict[str, Any]:
    return fitted_by_numpy(keras.optimizers.Adam(0.1, global_clipnorm=0.5, use_ema=True), samples)


@case("gradients given to an optimizer outside of `strategy.run`, accumulated")
def gradients_of_numpy_accumulated(samples: int) -> dict[str, Any]:
    return fitted_by_numpy(keras.optimizers.Adam(0.1, gradient_accumulation_steps=2), samples)


@case("gradients given to a LossScaleOptimizer in a `tf.function`, outside of `strategy.run`")
def scaled_gradients_in_a_function(samples: int) -> dict[str, Any]:
    inner = keras.optimizers.AdamW(0.1, clipnorm=0.5, use_ema=True, ema_overwrite_frequency=2)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
    return fitted_by_numpy(optimizer, samples, tf.function)
