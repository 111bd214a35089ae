"""Trains without `fit`: batch by batch, and in loops of its own. Says its numbers as one line of JSON."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

import tfdist

SAMPLES, BATCH = 45, 8

keras.utils.set_random_seed(3)
X = np.random.normal(size=(SAMPLES, 4)).astype("float32")
Y = np.random.randint(0, 3, SAMPLES)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def build() -> keras.Model:
    keras.utils.set_random_seed(5)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)])


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(SAMPLES, seed=11).batch(BATCH)


def on_batch() -> dict[str, object]:
    """Keras's own functions for single batches, of unequal sizes."""
    model = build()
    model.compile(keras.optimizers.SGD(0.2), LOSS, metrics=["accuracy"])
    weights = {0: 1.0, 1: 2.0, 2: 0.5}
    trained = [model.train_on_batch(x, y, class_weight=weights) for _ in range(2) for x, y in batches()]
    weighted = model.train_on_batch(X, Y, sample_weight=np.linspace(0, 1, SAMPLES), return_dict=True)
    return {
        "trained": np.array(trained).tolist(),
        "weighted": weighted,
        "tested": np.array(model.test_on_batch(X[:7], Y[:7])).tolist(),
        "predicted": model.predict_on_batch(X).tolist(),
    }


def with_strategy_run(data: object = None) -> dict[str, object]:
    """TensorFlow's guide to training loops with a strategy, with a Keras loss, optimizer and metric."""
    data = batches() if data is None else data
    strategy = tfdist.strategy()
    with strategy.scope():
        model, optimizer = build(), keras.optimizers.SGD(0.2, global_clipnorm=0.5)
        accuracy = keras.metrics.SparseCategoricalAccuracy()

    def step(batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        x, y = batch
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = LOSS(y, logits)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        accuracy.update_state(y, logits)
        return loss

    @tf.function
    def distributed(batch: object) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batch,)), axis=None)

    losses = []
    for _ in range(2):
        losses += [float(distributed(batch)) for batch in strategy.experimental_distribute_dataset(data)]
    return {
        "losses": losses,
        "accuracy": float(accuracy.result()),
        "weights": [weight.tolist() for weight in model.get_weights()],
    }


def with_tfdist_data() -> dict[str, object]:
    """The same guide, with a dataset that is distributed already on several workers."""
    return with_strategy_run(tfdist.data.arrays((X, Y), batch_size=BATCH, shuffle=True, seed=11))


def outside() -> dict[str, object]:
    """Losses and metrics that a script computes for itself, once it has trained."""
    model = build()
    predicted = model(X)
    mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()
    for part in (slice(0, 9), slice(9, SAMPLES)):
        mean.update_state(X[part])
        accuracy.update_state(Y[part], predicted[part])
    return {
        "loss": float(LOSS(Y, predicted)),
        "weighted": float(LOSS(Y, predicted, sample_weight=np.linspace(0, 1, SAMPLES))),
        "mean": float(mean.result()),
        "accuracy": float(accuracy.result()),
    }


def plain_tape() -> None:
    """The loop of a guide for one device."""
    model, optimizer = build(), keras.optimizers.SGD(0.2)
    for x, y in batches():
        with tf.GradientTape() as tape:
            loss = LOSS(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)


print(json.dumps({part.__name__: part() for part in (on_batch, with_strategy_run, with_tfdist_data, outside)}))
if sys.argv[1:] == ["tape"]:
    plain_tape()
