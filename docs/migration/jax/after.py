"""Digits on TensorFlow, the weights cut over all workers: tfdist train after.py digits.npz OUTPUT.weights.h5."""

import sys

import keras
import numpy as np

devices = keras.distribution.list_devices()
mesh = keras.distribution.DeviceMesh((1, len(devices)), ["batch", "model"], devices)
layout = keras.distribution.LayoutMap(mesh)
layout[".*up/kernel"] = (None, "model")
layout[".*up/bias"] = ("model",)
layout[".*down/kernel"] = ("model", None)
keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))

keras.utils.set_random_seed(7)
with np.load(sys.argv[1]) as digits:
    x, y = digits["x_train"] / 16.0, digits["y_train"]
    x_test, y_test = digits["x_test"] / 16.0, digits["y_test"]

model = keras.Sequential(
    [
        keras.Input([64]),
        keras.layers.Dense(512, activation="gelu", name="up"),
        keras.layers.Dense(64, name="down"),
        keras.layers.LayerNormalization(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.001), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=64, epochs=5, verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=64, verbose=0)
print(f"test loss {loss:.4f}, test accuracy {accuracy:.4f}")
model.save_weights(sys.argv[2])
