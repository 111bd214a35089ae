"""tfdist train --nproc 2 after.py digits.npz digits.keras"""

import sys

import keras
import numpy as np

keras.utils.set_random_seed(7)
with np.load(sys.argv[1]) as digits:
    x, y = digits["x_train"] / 16.0, digits["y_train"]
    x_test, y_test = digits["x_test"] / 16.0, digits["y_test"]

model = keras.Sequential(
    [
        keras.Input([64]),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.BatchNormalization(momentum=0.9),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=128, epochs=5, verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=128, verbose=0)
print(f"test loss {loss:.5f}, test accuracy {accuracy:.4f}")
model.save(sys.argv[2])
