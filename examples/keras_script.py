"""A Keras script that knows nothing of tfdist: digits from arrays in memory.

python examples/keras_script.py --epochs 5                          one device, without tfdist
tfdist train --nproc 2 examples/keras_script.py --epochs 5          two workers, the same numbers
"""

import argparse
from pathlib import Path

import keras
import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()

keras.utils.set_random_seed(7)
with np.load(Path(__file__).parent / "data" / "digits.npz") as digits:
    x_train, y_train = digits["x_train"] / 16.0, digits["y_train"]
    x_test, y_test = digits["x_test"] / 16.0, digits["y_test"]

model = keras.Sequential(
    [
        keras.Input([64]),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=128, epochs=args.epochs, validation_data=(x_test, y_test), verbose=2)
loss, accuracy = model.evaluate(x_test, y_test, batch_size=128, verbose=0)
print(f"test loss {loss:.5f}, test accuracy {accuracy:.4f}")
