"""Trains with a step of its own that keeps a maximum, which nothing but the step tells of, and a renamed metric.

With "KILL" worker 1 is killed within the second epoch of the first start.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdist


class Largest(keras.metrics.Metric):
    def __init__(self, name="largest"):
        super().__init__(name=name)
        self.value = self.add_weight(initializer="zeros", name="value")

    def update_state(self, values):
        self.value.assign(keras.ops.maximum(self.value, keras.ops.max(values)))

    def result(self):
        return self.value


class Stepping(keras.Model):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.largest, self.average = Largest(), keras.metrics.Mean(name="average")

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            values = keras.losses.mean_squared_error(y, self(x, training=True))
            loss = keras.ops.mean(values)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.largest.update_state(values)
        self.average.update_state(loss)
        return {"peak": self.largest.result(), "loss": self.average.result()}


class Killed(keras.callbacks.Callback):
    left = 13  # batches: in the second of the epochs of 8

    def on_train_batch_begin(self, batch, logs=None):
        self.left -= 1
        if self.left == 0 and tfdist.worker_index() == 1 and os.environ["TFDIST_ATTEMPT"] == "0":
            wait_for_checkpoint(11)
            os.kill(os.getpid(), signal.SIGKILL)


def wait_for_checkpoint(step):
    """The chief writes it in the background."""
    marker = Path(os.environ["TFDIST_RUN_DIR"], "checkpoints", "fit-1", f"step-{step:08d}", "checkpoint.json")
    deadline = time.monotonic() + 60
    while not marker.exists():
        assert time.monotonic() < deadline, f"{marker} did not come"
        time.sleep(0.01)


x = np.random.default_rng(5).normal(size=(45, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
# The largest errors come early in an epoch.
order = np.argsort(-np.abs(y[:, 0]))
data = tf.data.Dataset.from_tensor_slices((x[order], y[order])).batch(6)
inputs = keras.Input((4,))
model = Stepping(inputs, keras.layers.Dense(1)(keras.layers.Dense(6, activation="tanh")(inputs)))
model.compile(keras.optimizers.Adam(0.01))
callbacks = [*([Killed()] if "KILL" in sys.argv else []), *tfdist.callbacks(every_steps=11)]
history = model.fit(data, epochs=3, verbose=0, callbacks=callbacks).history
print(json.dumps(history), flush=True)
