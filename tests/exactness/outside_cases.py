"""What a script does outside of the steps of `fit`, with the model, its optimizer or its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.optimizer_cases import WithPositions
from tests.exactness.table import BATCH, ONLY_TRAINED, case, classifier, fitted, fitted_on, numbers, tokens

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


class CompilesAgain(keras.callbacks.Callback):
    """Compiles the model anew in the middle of `fit`, with other metrics: the next step makes their variables."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            metrics = [keras.metrics.F1Score(average="macro"), "mae"]
            self.model.compile(keras.optimizers.SGD(0.01), "categorical_crossentropy", metrics=metrics)
            self.model.make_train_function(force=True)


@case("`compile` in a callback, in the middle of `fit`")
def compiled_again_inside_of_fit(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    y = keras.utils.to_categorical(y, 3)
    compiled = {"loss": "categorical_crossentropy", "metrics": ["accuracy"]}
    return fitted(classifier(), x, y, compiled, shuffle=False, callbacks=[CompilesAgain()])


class FromOne(keras.metrics.Metric):
    """Makes its variable at its first update, and counts from one on."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if not self.variables:
            self.seen = self.add_variable((), "ones", name="seen")
        self.seen.assign_add(keras.ops.sum(keras.ops.cast(y_true * y_pred, self.seen.dtype)))

    def result(self) -> Any:
        return self.seen


@case("metrics made in `strategy.run`, or by their first update there")
def metrics_made_in_a_replica(samples: int) -> dict[str, Any]:
    made = fitted(classifier(), *numbers(samples))
    strategy = tf.distribute.get_strategy()
    of_classes, own, inner = keras.metrics.F1Score(), FromOne(), []

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        if not inner:
            inner.append(keras.metrics.OneHotMeanIoU(3))
        for metric in (of_classes, own, *inner):
            metric.update_state(tf.one_hot(y, 3, dtype="float64"), made["model"](x))

    data = tf.data.Dataset.from_tensor_slices((made["x"], made["y"])).batch(BATCH)
    for batch in strategy.experimental_distribute_dataset(data):
        strategy.run(step, args=batch)
    seen = [np.ravel(keras.ops.convert_to_numpy(metric.result())) for metric in (of_classes, own, *inner)]
    return {**made, **ONLY_TRAINED, "seen": np.concatenate(seen).tolist()}


@case("slices of the places in a text, the same in all batches, in a loop of one's own")
def gradients_of_places_in_a_loop(samples: int) -> dict[str, Any]:
    strategy, ids = tf.distribute.get_strategy(), tokens(samples)
    model = keras.Sequential([keras.Input((7,)), WithPositions(), layers.Flatten(), layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.Adam(0.01))
    optimizer, variables = model.optimizer, model.trainable_variables
    optimizer.build(variables)

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            values = keras.losses.sparse_categorical_crossentropy(y, model(x))
            loss = tf.nn.compute_average_loss(values, global_batch_size=BATCH)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    on_all = tf.function(lambda *batch: strategy.reduce("sum", strategy.run(step, args=batch), axis=None))
    data = tf.data.Dataset.from_tensor_slices((ids, ids[:, 0] % 3)).batch(BATCH)
    losses = [float(on_all(*batch)) for batch in strategy.experimental_distribute_dataset(data)]
    return {"model": model, "x": ids, "y": ids[:, 0] % 3, "history": {"loss": losses}, "evaluate": False}


@case("`class_weight`, and a dataset that the script has distributed")
def class_weight_of_a_distributed_dataset(samples: int) -> dict[str, Any]:
    x, y = numbers(samples)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(samples, seed=5).batch(BATCH)
    distributed = tf.distribute.get_strategy().experimental_distribute_dataset(data)
    compiled = {"weighted_metrics": ["accuracy"]}
    return fitted_on(classifier(), distributed, x, compiled, class_weight={0: 0.4, 1: 1.9, 2: 6.0}) | ONLY_TRAINED
