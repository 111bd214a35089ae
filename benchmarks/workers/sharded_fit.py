"""Memory and steps of Keras `fit` as the target of `tfdist train --shard MODE`: `... sharded_fit WIDTH LAYERS STEPS`.

Prints one line of JSON: of this worker the bytes that it stores, the most memory that it had, and what a step takes.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.workers.loop_spec import say

SAMPLES = 16
"""Of a step: few, so that memory is that of the weights."""

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> None:
    """Parses the command line, trains and prints."""
    width, layers, steps = map(int, sys.argv[1:])
    # The same weights in each mode.
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(1).normal(size=(SAMPLES * steps, width)).astype("float32")
    y = np.random.default_rng(2).integers(0, 3, len(x))
    # What kernels, pools and the exchange between workers take once is no part of the model's.
    _train(_model(width, 1, small=8), x[: 2 * SAMPLES], y[: 2 * SAMPLES])
    gc.collect()
    before = _status("VmRSS")
    _CLEAR.write_text("5")
    model = _model(width, layers)
    built = _status("VmHWM") - before
    _train(model, x[: 2 * SAMPLES], y[: 2 * SAMPLES])
    # Of steps that have their traces.
    _CLEAR.write_text("5")
    begun = time.perf_counter()
    loss = _train(model, x, y)
    seconds = (time.perf_counter() - begun) / steps
    say(
        parameters=model.count_params(),
        stored=_stored(model.weights),
        state=_stored(model.optimizer.variables),
        building=built,
        peak=_status("VmHWM") - before,
        seconds=seconds,
        loss=loss,
    )


def _model(width: int, layers: int, small: int | None = None) -> keras.Model:
    """Dense layers of so many inputs and outputs, or `small` outputs."""
    hidden = [keras.layers.Dense(small or width, "gelu", use_bias=False) for _ in range(layers)]
    model = keras.Sequential([keras.Input((width,)), *hidden, keras.layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.Adam(1e-5), "sparse_categorical_crossentropy")
    return model


def _train(model: keras.Model, x: Any, y: Any) -> float:
    history = model.fit(x, y, batch_size=SAMPLES, shuffle=False, verbose=0)
    return float(history.history["loss"][-1])


def _stored(variables: Any) -> int:
    """Bytes that this worker has of variables, whose shapes are those of the wholes."""
    values = [variable._value for variable in variables]
    return sum(int(np.prod(value.shape)) * value.dtype.size for value in values)


def _status(name: str) -> int:
    """Bytes of memory: resident now (VmRSS), or the most since `clear_refs` (VmHWM)."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
