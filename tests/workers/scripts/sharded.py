"""Trains, saves, and goes on: `sharded.py FOLDER [SAVED [only]]`, on one worker or on several that shard.

With SAVED it goes on from there, too, or only. Says the weights at each stage, and what files hold of the optimizers.
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
import tensorflow as tf

import tfdist

folder = Path(sys.argv[1])
keras.backend.set_floatx("float64")
keras.config.set_dtype_policy("float64")
X = np.random.default_rng(1).normal(size=(65, 6))
Y = np.random.default_rng(2).integers(0, 3, 65)


def build(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(70, "tanh"), keras.layers.Dense(3, "softmax")])
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def adam() -> keras.optimizers.Optimizer:
    # Epochs of 5 batches.
    options = {"global_clipnorm": 0.1, "use_ema": True, "ema_momentum": 0.8, "weight_decay": 0.1}
    return keras.optimizers.Adam(0.05, gradient_accumulation_steps=3, **options)


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
    said["gone on"] = fit(keras.saving.load_model(sys.argv[2]))
if "only" in sys.argv:
    print(json.dumps(said))
    sys.exit()

keras.utils.set_random_seed(3)
model = build(adam())
said["first"] = fit(model, keras.callbacks.ModelCheckpoint(folder / "at-{batch}.keras", save_freq=4))
for name in ("model.keras", "model.weights.h5", "model.h5"):
    (model.save_weights if "weights" in name else model.save)(folder / name)
tfdist.barrier()
for name in ("at-4.keras", "model.keras", "model.weights.h5", "model.h5"):
    said[name] = stored(folder / name)
for name in ("at-4.keras", "model.keras"):
    said[f"gone on from {name}"] = fit(keras.saving.load_model(folder / name))
backup = keras.callbacks.BackupAndRestore(str(folder / "backup"), delete_checkpoint=False)
fit(build(adam()), backup)
said["restored"] = fit(build(adam()), backup, epochs=2)

model = build(keras.optimizers.Lamb(0.01, use_ema=True, clipnorm=0.05))
said["whole variables"] = fit(model)
model.save(folder / "lamb.keras")
tfdist.barrier()
said["lamb.keras"] = stored(folder / "lamb.keras")
said["gone on from lamb.keras"] = fit(keras.saving.load_model(folder / "lamb.keras"))

# A loop by hand, whose optimizer the first step builds.
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(70, "tanh"), keras.layers.Dense(3, "softmax")])
optimizer = keras.optimizers.AdamW(0.02, weight_decay=0.1, clipnorm=0.02)
strategy = tfdist.strategy()


@tf.function
def step(x: tf.Tensor, y: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(keras.losses.sparse_categorical_crossentropy(y, model(x))) / 60
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


share = 60 // tfdist.num_workers()
mine = slice(share * tfdist.worker_index(), share * (tfdist.worker_index() + 1))
for _ in range(5):
    strategy.run(step, args=(tf.constant(X[:60][mine]), tf.constant(Y[:60][mine])))
said["by hand"] = [weight.tolist() for weight in model.get_weights()]

model = build(keras.optimizers.Adam())
model.optimizer.build(model.trainable_variables)
said["held"] = sum(int(np.prod(variable.numpy().shape)) for variable in model.optimizer.variables)
said["stored"] = sum(variable._value.shape.num_elements() for variable in model.weights)
print(json.dumps(said))
