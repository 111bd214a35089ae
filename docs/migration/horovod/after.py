"""tfdist train --nproc 2 after.py digits.npz digits.weights.h5"""

import math
import sys

import keras
import numpy as np

BATCH = 128  # of all workers together: 64 on each of two

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
steps = math.ceil(len(x) / BATCH)
warmup = keras.optimizers.schedules.CosineDecay(
    initial_learning_rate=0.0, decay_steps=10 * steps, warmup_target=0.002, warmup_steps=2 * steps
)
optimizer = keras.optimizers.Adam(warmup, gradient_accumulation_steps=2)
model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])

checkpoint = keras.callbacks.ModelCheckpoint(sys.argv[2], save_weights_only=True)
model.fit(x, y, batch_size=BATCH, epochs=5, callbacks=[checkpoint], verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=BATCH, verbose=0)
print(f"test loss {loss:.5f}, test accuracy {accuracy:.4f}")
