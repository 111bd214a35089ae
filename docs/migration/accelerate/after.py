"""tfdist train --nproc 2 --run-dir runs/digits --resume auto after.py digits.npz"""

import math
import sys

import keras
import numpy as np

BATCH, EPOCHS = 128, 5

keras.utils.set_random_seed(7)
with np.load(sys.argv[1]) as digits:
    x, y = digits["x_train"] / 16.0, digits["y_train"]
    x_test, y_test = digits["x_test"] / 16.0, digits["y_test"]

model = keras.Sequential(
    [
        keras.Input([64]),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(10),
    ]
)
schedule = keras.optimizers.schedules.CosineDecay(0.004, decay_steps=EPOCHS * math.ceil(len(x) / BATCH))
model.compile(
    keras.optimizers.AdamW(schedule, weight_decay=0.01, gradient_accumulation_steps=2, global_clipnorm=1.0),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, validation_data=(x_test, y_test), verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=BATCH, verbose=0)
print(f"test loss {loss:.5f}, test accuracy {accuracy:.4f}")
