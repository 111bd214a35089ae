"""Trains a table, saves it, and goes on: `embeddings.py FOLDER [SAVED [only]]`, on one worker or on several.

With SAVED it goes on from there, too, or only. Says the weights at each stage, what files hold, and what a worker has.
"""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

import tfdist

folder = Path(sys.argv[1])
keras.backend.set_floatx("float64")
keras.config.set_dtype_policy("float64")
ROWS, DIM = 101, 8
X = np.random.default_rng(1).integers(0, ROWS, (65, 6))
Y = np.random.default_rng(2).integers(0, 3, 65)


def build() -> keras.Model:
    table, head = tfdist.layers.ShardedEmbedding(ROWS, DIM), keras.layers.Dense(3, "softmax")
    model = keras.Sequential([keras.Input((6,)), table, keras.layers.GlobalAveragePooling1D(), head])
    # Epochs of 5 batches.
    optimizer = keras.optimizers.Adam(0.05, gradient_accumulation_steps=3, use_ema=True, ema_momentum=0.8)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def fit(model: keras.Model, *callbacks: keras.callbacks.Callback, epochs: int = 1) -> list[Any]:
    model.fit(X, Y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))
    return [weight.tolist() for weight in model.get_weights()]


def stored(path: Path) -> dict[str, Any]:
    """The arrays in a file, by name: those of a `.keras`, of weights, or of HDF5."""
    content: Any = path
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            content = io.BytesIO(archive.read("model.weights.h5"))
    found: dict[str, Any] = {}
    with h5py.File(content) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()].tolist()} if isinstance(item, h5py.Dataset) else {})
        )
    return found


said: dict[str, Any] = {}
if len(sys.argv) > 2:
    model = keras.saving.load_model(sys.argv[2])
    said = {"layer": type(model.layers[0]).__name__, "gone on": fit(model)}
if "only" in sys.argv:
    print(json.dumps(said))
    sys.exit()

keras.utils.set_random_seed(3)
model = build()
said["first"] = fit(model, keras.callbacks.ModelCheckpoint(folder / "at-{batch}.keras", save_freq=4))
for name in ("model.keras", "model.weights.h5", "model.h5"):
    (model.save_weights if "weights" in name else model.save)(folder / name)
tfdist.barrier()
for name in ("at-4.keras", "model.keras", "model.weights.h5", "model.h5"):
    said[name] = stored(folder / name)
for name in ("at-4.keras", "model.keras"):
    said[f"gone on from {name}"] = fit(keras.saving.load_model(folder / name))
backup = keras.callbacks.BackupAndRestore(str(folder / "backup"), delete_checkpoint=False)
fit(build(), backup)
said["restored"] = fit(build(), backup, epochs=2)
table = model.layers[0]._embeddings
held = [getattr(table, "rows", table), *model.optimizer.variables]
said["held"] = sum(int(np.prod(variable.shape)) for variable in held if tuple(variable.shape)[1:] == (DIM,))
print(json.dumps(said))
