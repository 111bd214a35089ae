"""Digits, as a script for one device: python train.py [EPOCHS], beside digits.npz."""

import sys

import keras
import numpy as np

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
keras.utils.set_random_seed(7)
with np.load("digits.npz") as digits:
    x, y = digits["x_train"].reshape(-1, 8, 8, 1) / 16.0, digits["y_train"]
    x_test, y_test = digits["x_test"].reshape(-1, 8, 8, 1) / 16.0, digits["y_test"]

model = keras.Sequential(
    [
        keras.Input([8, 8, 1]),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.BatchNormalization(momentum=0.9),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=128, epochs=epochs, verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=128, verbose=0)
print(f"test loss {loss:.4f}, test accuracy {accuracy:.4f}")
model.save("digits.keras")
