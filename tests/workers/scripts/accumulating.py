"""Trains, saves inside of an accumulation and goes on from what was saved: `accumulating.py FOLDER [SAVED]`.

With SAVED it goes on from there instead. Says the weights and the state of the optimizer at each stage.
"""

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfdist

folder = Path(sys.argv[1])
keras.backend.set_floatx("float64")
keras.config.set_dtype_policy("float64")
keras.utils.set_random_seed(3)
X = np.random.default_rng(1).normal(size=(65, 6))
Y = np.random.default_rng(2).integers(0, 3, 65)


def build() -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")])
    # Epochs of 5 batches.
    optimizer = keras.optimizers.Adam(0.05, gradient_accumulation_steps=3)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def fit(model: keras.Model, *callbacks: keras.callbacks.Callback, epochs: int = 1) -> dict[str, Any]:
    model.fit(X, Y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))
    return state(model)


def state(model: keras.Model) -> dict[str, Any]:
    state = {"weights": model.weights, "optimizer": model.optimizer.variables}
    return {name: [variable.numpy().ravel().tolist() for variable in variables] for name, variables in state.items()}


if len(sys.argv) > 2:
    print(json.dumps({"gone on": fit(keras.saving.load_model(sys.argv[2]))}))
    sys.exit()

said = {}
model = build()
fit(model, keras.callbacks.ModelCheckpoint(folder / "at-{batch}.keras", save_freq=4))
model.save(folder / "model.keras")
loaded = keras.saving.load_model(folder / "model.keras")
said["saved"] = state(keras.saving.load_model(folder / "model.keras"))
said["saved inside the epoch"] = state(keras.saving.load_model(folder / "at-4.keras"))
said["gone on"] = fit(loaded)
backup = keras.callbacks.BackupAndRestore(str(folder / "backup"), delete_checkpoint=False)
fit(build(), backup)
said["restored"] = fit(build(), backup, epochs=2)
# Nobody waits for workers without the checkpoint; inside of the epoch it holds the chief's part.
given = [keras.callbacks.ModelCheckpoint(folder / "chief-{batch}.keras", save_freq=4)] if tfdist.is_chief() else []
said["saved by the chief"] = fit(build(), *given)
print(json.dumps(said))
