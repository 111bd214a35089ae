"""Memory and steps of Keras `fit` as the target of `tfdist train`: `... sharded_fit MODEL STEPS`.

MODEL is a name of `sharded_models`. Prints one line of JSON: of this worker the bytes that it stores, the most memory
that it had, and what a step takes; and the mean losses of two steps and of those that are timed, equal on all workers.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.fit import EpochClock, pin
from benchmarks.workers import sharded_models
from benchmarks.workers.loop_spec import say

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> None:
    """Parses the command line, trains and prints."""
    name, steps = sys.argv[1], int(sys.argv[2])
    pin(sorted(os.sched_getaffinity(0)))
    # The same weights in each mode.
    keras.utils.set_random_seed(1)
    # What kernels, pools and the exchange between workers take once is no part of the model's.
    _train(*sharded_models.build_small(name), 2)
    gc.collect()
    before = memory("VmRSS")
    clear_most()
    model = sharded_models.build(name)
    built = memory("VmHWM") - before
    losses = [_train(model, name, 2)[0]]
    # Of steps that have their traces.
    clear_most()
    loss, seconds = _train(model, name, steps)
    say(
        parameters=model.count_params(),
        stored=_stored(model.weights),
        state=_stored(model.optimizer.variables),
        building=built,
        peak=memory("VmHWM") - before,
        seconds=seconds / steps,
        losses=[*losses, loss],
    )


def _train(model: keras.Model, name: str, steps: int) -> tuple[float, float]:
    """Trains so many steps, and returns their mean loss, and the seconds of their epoch."""
    batch = sharded_models.batch_size(name)
    x, y = sharded_models.data(name, steps * batch)
    clock = EpochClock()
    history = model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, callbacks=[clock])
    return float(history.history["loss"][-1]), clock.seconds


def _stored(variables: Any) -> int:
    """Bytes that this worker has of variables, whose shapes are those of the wholes."""
    values = [variable._value for variable in variables]
    return sum(int(np.prod(value.shape)) * value.dtype.size for value in values)


def clear_most() -> None:
    """Begins `VmHWM` anew."""
    _CLEAR.write_text("5")


def memory(name: str) -> int:
    """Bytes of memory: resident now (VmRSS), or the most since `clear_refs` (VmHWM)."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
