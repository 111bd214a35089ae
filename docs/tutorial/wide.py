"""Digits by a network of 18 million weights, as a script for one device: python wide.py, beside digits.npz."""

import keras
import numpy as np

keras.utils.set_random_seed(7)
with np.load("digits.npz") as digits:
    x, y = digits["x_train"] / 16.0, digits["y_train"]
    x_test, y_test = digits["x_test"] / 16.0, digits["y_test"]

model = keras.Sequential(
    [
        keras.Input([64]),
        keras.layers.Dense(4096, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(4096, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=128, epochs=2, verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=128, verbose=0)
print(f"wide: test loss {loss:.4f}, test accuracy {accuracy:.4f}")
model.save("wide.keras")
