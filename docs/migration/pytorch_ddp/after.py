"""tfdist train --nproc 2 after.py digits.npz digits.weights.h5"""

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
        keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5),
        keras.layers.Dense(10),
    ]
)
model.compile(
    keras.optimizers.AdamW(0.002, weight_decay=0.01, global_clipnorm=1.0),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(x, y, batch_size=128, epochs=5, verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=128, verbose=0)
print(f"test loss {loss:.5f}, test accuracy {accuracy:.4f}")
model.save_weights(sys.argv[2])
