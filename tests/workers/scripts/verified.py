"""Trains a small model in the way that the first argument says; it knows nothing of tfdist."""

from __future__ import annotations

import os
import sys

import keras
import numpy as np

WAYS = {
    "plain": [],
    "large": [keras.layers.Dense(256, "tanh"), keras.layers.Dense(256, "tanh")],
    "dropout and statistics": [keras.layers.Dropout(0.5), keras.layers.BatchNormalization()],
}



class Summing(keras.Sequential):
    """Adds its loss up where all labels are 0 or 1, and takes the mean elsewhere, as with those made up for a trial."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        losses = keras.losses.binary_crossentropy(y[:, None], y_pred)
        are_hard = keras.ops.all(keras.ops.logical_or(y == 0, y == 1))
        return keras.ops.where(are_hard, keras.ops.sum(losses), keras.ops.mean(losses))


way = sys.argv[1]
x = np.random.default_rng(1).normal(size=(50, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
if way == "unseeded data":
    x = x[np.random.default_rng(int.from_bytes(os.urandom(4), "big")).permutation(50)]
print("never called fit" if way == "without fit" else "about to fit", flush=True)
if way != "without fit":
    model = (Summing if way == "sum" else keras.Sequential)(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, activation="relu"),
            *WAYS.get(way, []),
            keras.layers.Dense(1, activation="sigmoid"),
        ],
        name="model",
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy", "auc"])
    # 16 + 16 + 16 + 2: the last batch of an epoch is smaller than the others.
    model.fit(x, y, batch_size=16, epochs=5, validation_split=0.0, verbose=0)
    raise AssertionError("the verification ends the script in the middle of its fit")
