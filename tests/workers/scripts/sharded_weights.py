"""Trains models whose weights are used in every way that layers have: on one worker, or on several that hold parts.

Says the losses, the weights, and what predictions and evaluations give, in a function and eagerly.
"""

import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist

keras.backend.set_floatx("float64")
keras.config.set_dtype_policy("float64")
keras.utils.set_random_seed(3)
TOKENS = np.random.default_rng(1).integers(0, 50, (41, 7))
KINDS = np.random.default_rng(2).integers(0, 3, 41)


class Residual(keras.layers.Layer):
    """Two weights of its own, one with a regularizer, one with a constraint."""

    def build(self, shape: Any) -> None:
        self.inner = self.add_weight(shape=(shape[-1], 5), regularizer="l2")
        self.outer = self.add_weight(shape=(5, shape[-1]), constraint="non_neg")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + keras.ops.tanh(x @ self.inner) @ self.outer


class Tied(keras.Model):
    """Reads the weight of one of its layers itself, and calls another one twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(50, 6)
        self.recurrent = keras.layers.LSTM(6, return_sequences=True)
        self.residual = Residual()
        self.dropout = keras.layers.Dropout(0.3)
        self.normalization = keras.layers.BatchNormalization()

    def call(self, tokens: tf.Tensor, training: bool = False) -> tf.Tensor:
        x = self.residual(self.residual(self.recurrent(self.embedding(tokens))))
        x = self.normalization(self.dropout(x, training=training), training=training)
        logits = x @ keras.ops.transpose(self.embedding.embeddings)
        return keras.ops.softmax(keras.ops.mean(logits, 1)[:, :3])


class OwnStep(Tied):
    """A step of its own."""

    def train_step(self, data: Any) -> dict[str, Any]:
        tokens, kinds = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.losses.sparse_categorical_crossentropy(kinds, self(tokens, training=True)))
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return {"loss": loss}


def numbers(model: keras.Model, **compiled: Any) -> dict[str, Any]:
    optimizer = keras.optimizers.AdamW(0.01, global_clipnorm=0.3, use_ema=True, weight_decay=0.01)
    model.compile(optimizer, "sparse_categorical_crossentropy", **compiled)
    history = model.fit(TOKENS, KINDS, batch_size=20, shuffle=False, verbose=0, epochs=2)
    return {
        "loss": history.history["loss"],
        "evaluated": model.evaluate(TOKENS, KINDS, batch_size=20, verbose=0),
        "predicted": model.predict(TOKENS, batch_size=20, verbose=0).tolist(),
        "weights": [weight.tolist() for weight in model.get_weights()],
        "parameters": model.count_params(),
    }


said: dict[str, Any] = {
    "in a function": numbers(Tied()),
    "eagerly": numbers(Tied(), run_eagerly=True),
    "by a step of its own": numbers(OwnStep()),
}
model = keras.Sequential([keras.Input((6,)), Residual(), keras.layers.Dense(4)])
given = [np.full(weight.shape, number / 10) for number, weight in enumerate(model.weights)]
model.set_weights(given)
said["set"] = [weight.tolist() for weight in model.get_weights()]
said["array"] = np.asarray(model.layers[0].inner).tolist()
workers = tfdist.num_workers()
said["says its parts"] = (f"in {workers} parts" in repr(model.layers[0].inner)) == (workers > 1)
print(json.dumps(said))
