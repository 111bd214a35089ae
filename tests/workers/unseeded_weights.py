"""Makes weights without a seed, and says of which the values are those that the chief's initializer gives."""

from __future__ import annotations

import json
import random

import keras
import numpy as np

random.seed()  # Keras takes the seeds of initializers from there: another one on each worker.
layers = [
    keras.layers.Embedding(5001, 64),
    keras.layers.Dense(333),
    keras.layers.Dense(256, kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.1), bias_initializer="ones"),
    keras.layers.Dense(222, kernel_initializer="orthogonal"),
    keras.layers.Dense(100, kernel_initializer=lambda shape, dtype=None: np.random.default_rng().normal(size=shape)),
]
model = keras.Sequential([keras.Input((4,)), *layers])
kernels = [layers[0].embeddings, *(layer.kernel for layer in layers[1:])]
made = [layers[0].embeddings_initializer, *(layer.kernel_initializer for layer in layers[1:-1])]
full = [kernel.numpy() for kernel in kernels]
expected = [initializer(kernel.shape).numpy() for initializer, kernel in zip(made, kernels, strict=False)]
same = [bool(np.array_equal(*pair)) for pair in zip(full, expected, strict=False)]
print(json.dumps({"same": same, "stored": [list(kernel._value.shape) for kernel in kernels]}))
