"""Says with which errors a run that shards refuses what it cannot do."""

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist

X = np.random.default_rng(1).normal(size=(32, 6)).astype("float32")
Y = np.random.default_rng(2).integers(0, 3, 32)


class GlobalScale(keras.optimizers.SGD):
    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        scale = tf.add_n([tf.reduce_sum(tf.abs(gradient)) for gradient in grads])
        super().apply([gradient / scale for gradient in grads], trainable_variables)


class SharedState(keras.optimizers.Optimizer):
    def build(self, variables: Any) -> None:
        super().build(variables)
        self.seen = self.add_variable(shape=(), name="seen")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_add(self.seen, keras.ops.sum(keras.ops.abs(gradient)))
        self.assign_sub(variable, gradient * learning_rate / self.seen)


def fit(optimizer: Any, *callbacks: keras.callbacks.Callback) -> None:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, "softmax")])
    model.compile(optimizer, "sparse_categorical_crossentropy")
    model.fit(X, Y, batch_size=16, verbose=0, callbacks=list(callbacks))


def on_the_chief() -> None:
    fit("adam", *([keras.callbacks.ModelCheckpoint("never.keras")] if tfdist.is_chief() else []))


def checkpoint() -> None:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    if tfdist.is_chief():
        tf.train.CheckpointManager(tf.train.Checkpoint(optimizer=optimizer), "never", max_to_keep=1).save()


calls = {
    "checkpoint": checkpoint,
    "apply": lambda: fit(GlobalScale(0.1)),
    "shared state": lambda: fit(SharedState(0.1)),
    "pruning": lambda: fit("adam", tfdist.Pruning(0.5)),
    "chief alone": on_the_chief,
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = "nothing"
    except Exception as error:  # All are said, whatever they are.
        said[name] = str(error)
print(json.dumps(said))
