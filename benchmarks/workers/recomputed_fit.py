"""Memory and time of a step of Keras `fit` with and without `keras.RematScope`, as the target of `tfdist train`.

    tfdist train [--nproc 2 --shard zero3] -m benchmarks.workers.recomputed_fit MODE BLOCKS WIDTH BATCH STEPS

MODE is `keep`, or the mode of a `keras.RematScope` around the model: `full`. Each block is a layer of four Dense layers
with gelu, and dropout. Prints one line of JSON: the most resident memory of a step above what the worker had before the
model, seconds a step, and the mean loss.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from typing import Any

import keras
import numpy as np

from benchmarks.workers.loop_spec import say
from benchmarks.workers.sharded_fit import clear_most, memory


class Block(keras.layers.Layer):
    """Four Dense layers with gelu, and dropout: eight activations of [batch, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = [keras.layers.Dense(width, "gelu") for _ in range(4)]
        self.dropout = keras.layers.Dropout(0.1)

    def build(self, shape: Any) -> None:
        for layer in self.inner:
            layer.build(shape)
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        y = x
        for layer in self.inner:
            y = layer(y)
        return x + self.dropout(y, training=training)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def main() -> None:
    """Parses the command line, trains and prints."""
    mode, (blocks, width, batch, steps) = sys.argv[1], map(int, sys.argv[2:])
    keras.utils.set_random_seed(1)
    _train(network("keep", 1, 8), 8, 16, 2)
    gc.collect()
    before = memory("VmRSS")
    model = network(mode, blocks, width)
    _train(model, width, batch, 2)
    clear_most()
    begun = time.perf_counter()
    loss = _train(model, width, batch, steps)
    seconds = (time.perf_counter() - begun) / steps
    say(mode=mode, parameters=model.count_params(), peak=memory("VmHWM") - before, seconds=seconds, loss=loss)


def network(mode: str, blocks: int, width: int) -> keras.Model:
    """The compiled model: `benchmarks.workers.recomputed_fit.network` in a config that `tfdist plan --memory` reads."""
    with contextlib.nullcontext() if mode == "keep" else keras.RematScope(mode):
        x = inputs = keras.Input((width,))
        for _ in range(blocks):
            x = Block(width)(x)
        model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(x))
    model.compile(keras.optimizers.Adam(1e-5), "sparse_categorical_crossentropy")
    return model


def _train(model: keras.Model, width: int, batch: int, steps: int) -> float:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(batch * steps, width)).astype("float32"), generator.integers(0, 3, batch * steps)
    return float(model.fit(x, y, batch_size=batch, shuffle=False, verbose=0).history["loss"][-1])


if __name__ == "__main__":
    main()
