"""The models and samples of the tests of quantization, and what one device makes of them: `FOLDER/expected.npz`."""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np

SAMPLES = 65


def main(folder: Path) -> None:
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(0).normal(size=[SAMPLES, 6]).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 3, SAMPLES)
    np.savez(folder / "samples.npz", x_train=x, y_train=y)
    (folder / "samples.yaml").write_text("{format: npz, path: samples.npz, split: train}\n")
    layers = [
        keras.layers.Reshape([6, 1]),
        keras.layers.Conv1D(4, 3, name="conv"),
        keras.layers.Flatten(),
        keras.layers.Dense(16, "tanh", kernel_regularizer="l2", name="wide"),
        keras.layers.Dense(3, "softmax", name="head"),
    ]
    model = keras.Sequential([keras.Input([6]), *layers])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=3, verbose=0)
    model.save(folder / "model.keras")
    model = keras.models.load_model(folder / "model.keras")
    for variable in model.variables:
        variable.regularizer = None
    before = model.evaluate(x, y, verbose=0)
    model.quantize("int8")
    after = model.evaluate(x, y, verbose=0)
    # Its labels are what it predicts: whatever rounds its weights makes the loss worse.
    perfect = keras.Sequential([keras.Input([6]), keras.layers.Dense(3, name="a"), keras.layers.Dense(3, name="b")])
    perfect.compile("adam", "mse")
    perfect.save(folder / "perfect.keras")
    np.savez(folder / "perfect.npz", x_train=x, y_train=perfect.predict(x, verbose=0))
    (folder / "perfect.yaml").write_text("{format: npz, path: perfect.npz, split: train}\n")
    np.savez(folder / "expected.npz", before=before, after=after, predicted=model.predict(x, verbose=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
