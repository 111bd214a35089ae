"""The models and samples of the tests of inference, and what one device makes of them: `FOLDER/expected.npz`."""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np

BATCH = 61


def layers() -> keras.Model:
    inputs = keras.Input([4])
    p = keras.layers.Dense(3, activation="softmax")(keras.layers.Dense(8, activation="tanh")(inputs))
    bins = keras.layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])(inputs)
    word = keras.layers.StringLookup(vocabulary=["cat", "dog", "é", ""], num_oov_indices=0, invert=True)
    return keras.Model(inputs, {"p": p, "bins": bins, "words": word(bins)})


def main(folder: Path) -> None:
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(0).normal(size=[450, 4]).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 3, 450)
    for samples in (1, 65, 450):
        np.savez(folder / f"{samples}.npz", x_train=x[:samples], y_train=y[:samples])
        (folder / f"{samples}.yaml").write_text(f"{{format: npz, path: {samples}.npz, split: train}}\n")
    several = layers()
    several.save(folder / "several.keras")
    predicted = several.predict(x, batch_size=BATCH, verbose=0)
    one = keras.Sequential([keras.Input([4]), keras.layers.Dense(3, dtype="float64")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    one.compile("adam", loss, metrics=["accuracy"], weighted_metrics=[loss])
    one.save(folder / "one.keras")
    metrics = [
        [float(value) for value in one.evaluate(x[:samples], y[:samples], batch_size=BATCH, verbose=0)]
        for samples in (1, 65, 450)
    ]
    predicted["words"] = predicted["words"].astype("S")
    np.savez(folder / "expected.npz", metrics=metrics, double=one.predict(x, verbose=0), **predicted)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
