"""Makes weights without a seed, and says which have the values that the chief's initializer gives."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist


class Pruned(keras.layers.Dense):
    """Changes what it has asked for, which is its own."""

    def save_own_variables(self, store: Any) -> None:
        for number, weight in enumerate(self.weights):
            value = keras.ops.convert_to_numpy(weight)
            value[np.abs(value) < 1e-3] = 0
            store[str(number)] = value


def of_a_layer(shape: tuple[int, ...], dtype: Any = None) -> Any:
    """As weights are taken from a model that was trained before."""
    other = keras.layers.Dense(shape[1], kernel_initializer="ones")
    other.build((None, shape[0]))
    return 2 * other.kernel.numpy()


random.seed()  # Keras takes the seeds of initializers from there: another one on each worker.
layers = [
    keras.layers.Embedding(5001, 64),
    keras.layers.Dense(333),
    keras.layers.Dense(256, kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.1), bias_initializer="ones"),
    keras.layers.Dense(222, kernel_initializer="orthogonal"),
    Pruned(100, kernel_initializer=lambda shape, dtype=None: np.random.default_rng().normal(size=shape)),
]
model = keras.Sequential([keras.Input((4,)), *layers])
kernels = [layers[0].embeddings, *(layer.kernel for layer in layers[1:])]
made = [layers[0].embeddings_initializer, *(layer.kernel_initializer for layer in layers[1:-1])]
full = [kernel.numpy() for kernel in kernels]
expected = [initializer(kernel.shape).numpy() for initializer, kernel in zip(made, kernels, strict=False)]
said = {
    "same": [bool(np.array_equal(*pair)) for pair in zip(full, expected, strict=False)],
    "stored": [list(kernel._value.shape) for kernel in kernels],
}

others = {
    "of a layer": of_a_layer,
    "another initializer": "ones" if tfdist.is_chief() else "zeros",
    "another number": keras.initializers.Constant(1.0 if tfdist.is_chief() else 2.0),
    "another array": np.ones((256, 256), "float32") if tfdist.is_chief() else "zeros",
}
for name, initializer in others.items():
    layer = keras.layers.Dense(256, kernel_initializer=initializer)
    layer.build((None, 256))
    said[name] = [type(layer.kernel).__name__, *np.unique(layer.kernel.numpy()).tolist()]


def failing(shape: tuple[int, ...], dtype: Any = None) -> Any:
    raise OSError("no such file")


layer = keras.layers.Dense(256, kernel_initializer=failing)
try:
    layer.build((None, 256))
except OSError:
    layer.kernel_initializer = keras.initializers.Ones()
    layer.build((None, 256))
said["weights"] = [weight.name for weight in layer.weights]

layer = keras.layers.Dense(256, name="in_a_function")
tf.function(layer, autograph=False)(tf.ones((1, 256)))
same = np.array_equal(layer.kernel.numpy(), layer.kernel_initializer(layer.kernel.shape).numpy())
said["in a function"] = [type(layer.kernel).__name__, bool(same)]
model.save(sys.argv[1])
print(json.dumps(said))
