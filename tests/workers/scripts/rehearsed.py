"""Trains a model with a layer over the batch, saves in every way, and says at its end what came of it."""

import json
import sys
from pathlib import Path

import keras
import numpy as np


class Centered(keras.layers.Layer):
    """Subtracts the mean of the batch."""

    def call(self, inputs):
        return inputs - keras.ops.mean(inputs, axis=0, keepdims=True)


keras.utils.set_random_seed(3)
x = np.random.rand(70, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(128), Centered(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
callbacks = [
    keras.callbacks.ModelCheckpoint("checkpoints/best.keras"),
    keras.callbacks.CSVLogger("log.csv"),
    keras.callbacks.BackupAndRestore("backup"),
]
history = model.fit(x, y, batch_size=16, epochs=7, validation_split=0.3, callbacks=callbacks, verbose=0)
model.save("model.keras")
model.save_weights("model.weights.h5")
model.load_weights("model.weights.h5")
steps = int(model.optimizer.iterations.numpy())
print(json.dumps({"epochs": len(history.epoch), "steps": steps, "args": sys.argv[1:]}))
if "--write" in sys.argv:
    Path("after.txt").touch()
