"""A script for JAX: a mesh of all devices, and a layout map. Prints what it has trained, and how weights are stored."""

from __future__ import annotations

import json
import os
import sys

import keras
import numpy as np
from keras import layers

devices = keras.distribution.list_devices()
groups, optimizer, place = int(sys.argv[1]), sys.argv[2], sys.argv[3]
keras.config.set_floatx("float64")
keras.utils.set_random_seed(3)
if len(devices) > 1:
    keras.distribution.initialize()
    if hasattr(keras.distribution, "get_device_count"):  # From Keras 3.13 on.
        assert keras.distribution.get_device_count() == len(devices)
    mesh = keras.distribution.DeviceMesh((groups, len(devices) // groups), ["batch", "model"], devices)
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*dense.*kernel"] = (None, "model")
    layout[".*dense.*bias"] = ("model",)
    layout[".*embedding/embeddings"] = ("model", "batch")
    layout[".*places/embeddings"] = ("batch", "model")
    layout[".*(query|key|value)/kernel"] = ("batch", "model", None)
    layout[".*attention_output/kernel"] = ("batch", None, None)
    layout[".*conv.*kernel"] = (None, "model", "batch")
    layout[".*conv.*bias"] = ("batch",)
    layout[".*dense.*/output"] = (None, "model")
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))

OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01, clipnorm=0.5),
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, global_clipnorm=0.5, gradient_accumulation_steps=2),
    "averages": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3, weight_decay=0.01),
    "muon": lambda: keras.optimizers.Muon(0.01),
}
rng = np.random.default_rng(0)
x, y = rng.integers(1, 50, (65, 6)), rng.normal(size=(65, 3))
ids = keras.Input((6,), dtype="int64")
hidden = layers.Embedding(50, 12)(ids) + layers.Embedding(6, 12, name="places")(ids % 6)
hidden = layers.MultiHeadAttention(3, 4, use_bias=False)(hidden, hidden, use_causal_mask=True) + hidden
hidden = layers.Conv1D(5, 3)(layers.LayerNormalization()(hidden))
hidden = layers.BatchNormalization()(layers.GlobalAveragePooling1D()(hidden))
hidden = layers.Dropout(0.3)(layers.Dense(33, activation="tanh", kernel_regularizer="l2")(hidden))
model = keras.Model(ids, layers.Dense(3)(hidden))
model.compile(OPTIMIZERS[optimizer](), "mse", metrics=["mae"])
found = {"history": model.fit(x, y, batch_size=16, epochs=3, verbose=0).history}
model.save(f"{place}.keras")
loaded = keras.models.load_model(f"{place}.keras")
if os.environ.get("TFDIST_SLOW_TESTS"):
    found["again"] = loaded.fit(x, y, batch_size=16, verbose=0).history
found["evaluated"] = loaded.evaluate(x, y, verbose=0)
found["predicted"] = loaded.predict(x, verbose=0).tolist()
found["weights"] = {weight.path: np.asarray(weight).tolist() for weight in loaded.weights}
held = [*model.trainable_weights, *model.optimizer.variables]
found["stored"] = {variable.path: list(variable._value.shape) for variable in held}
print(json.dumps(found))
