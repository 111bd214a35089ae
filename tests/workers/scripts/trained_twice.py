"""Trains a model twice and one that Keras cannot save once, and says what names and random numbers are next.

With "whole" the last `fit` is of the model that Keras can save, which the script saves itself, too.
"""

import json
import random
import sys

import keras
import numpy as np

import tfdist


class WithFunction(keras.Model):
    """Takes a function, which Keras cannot write down."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.function(self.dense(inputs))


def trained(model, epochs, **options):
    model.compile("adam", "mse", metrics=["mae"])
    return model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, **options).history


keras.utils.set_random_seed(3)
x = np.random.rand(50, 4).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(64), keras.layers.Dropout(0.1), keras.layers.Dense(1)])
histories = [trained(model, 2), trained(model, 1, validation_data=(x, y))]
if "whole" not in sys.argv:
    histories.append(trained(WithFunction(keras.ops.relu), 2))
elif tfdist.num_workers() == 1 or "--shard" in sys.argv or tfdist.is_chief():
    model.save("own.keras")
names = [keras.layers.Layer().name, keras.metrics.Mean().name, keras.layers.Dense(1).name]
print(json.dumps({"histories": histories, "names": names, "random": [random.random(), np.random.rand()]}))
