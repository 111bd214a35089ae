"""Trains with BatchNormalization; the first argument, if any, is whose statistics the script asks for itself."""

import json
import sys

import keras
import numpy as np

import tfdist

if len(sys.argv) > 1:
    tfdist.strategy(batch_norm=sys.argv[1])
x = np.random.default_rng(1).normal(size=(33, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=32, epochs=1, shuffle=False, verbose=0)
print(json.dumps({"mean": model.layers[0].moving_mean.numpy().tolist()}))
