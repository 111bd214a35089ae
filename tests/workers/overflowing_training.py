"""Trains in float16 a model whose gradients overflow in the rows of its kernel that the first workers store."""

from __future__ import annotations

import json

import keras
import numpy as np
from keras import layers

devices = keras.distribution.list_devices()
keras.mixed_precision.set_global_policy("mixed_float16")
keras.utils.set_random_seed(1)
if len(devices) > 1:
    mesh = keras.distribution.DeviceMesh((2, len(devices) // 2), ["batch", "model"], devices)
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = ("batch", None)
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch"))
rng = np.random.default_rng(0)
x, y = rng.normal(size=(16, 4)), rng.normal(size=(16, 1))
x[:, 0] = 30
model = keras.Sequential([keras.Input((4,)), layers.Dense(1, use_bias=False)])
model.compile(keras.optimizers.SGD(1e-5), "mse")
model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
found = {"kernel": np.asarray(model.layers[0].kernel).ravel().tolist()}
print(json.dumps({**found, "steps": int(model.optimizer.iterations), "scale": float(model.optimizer.dynamic_scale)}))
