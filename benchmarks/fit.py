"""Timer of Keras `fit` in this process: `python -m benchmarks.fit MODEL STEPS [--cores 0,1]`.

The `fit` knows nothing of tfdist: run by itself it times Keras, as the target of `tfdist train` it times tfdist. The
chief prints one line of JSON with the steps a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from typing import Any

import keras

from benchmarks import models
from benchmarks.model_sizes import BATCH
from benchmarks.workers.loop_spec import WARM_STEPS
from tfdist.launch.environment import Assignment
from tfdist.runtime.devices import uses_onednn


def main() -> None:
    """Parses the command line, times and prints."""
    parser = argparse.ArgumentParser(description="Times Keras fit in this process.")
    parser.add_argument("model", choices=models.NAMES)
    parser.add_argument("steps", type=int)
    parser.add_argument("--cores", help="worker I of several runs on the I-th of these cores alone")
    options = parser.parse_args()
    if options.cores:
        pin([int(core) for core in options.cores.split(",")])
    model = models.build(options.model)
    rate = time_fit(model, options.model, options.steps)
    facts = {"parameters": model.count_params(), "onednn": uses_onednn()}
    print(json.dumps({"model": options.model, "steps_per_second": rate, **facts}), flush=True)


def time_fit(model: keras.Model, name: str, steps: int) -> float:
    """Steps a second of an epoch of `fit` with global batches of 256, after a short `fit` that is not counted."""
    batches, clock = models.batches(name, BATCH), EpochClock()
    model.fit(batches, steps_per_epoch=WARM_STEPS, epochs=1, verbose=0, shuffle=False)
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False, callbacks=[clock])
    return steps / clock.seconds


class EpochClock(keras.callbacks.Callback):
    """How long the epoch took. What `fit` does once for all epochs, before and after them, is not in it."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds = time.perf_counter() - self._begun


def pin(cores: list[int]) -> None:
    """Keeps every thread of this process, those of TensorFlow included, on this worker's core."""
    assignment = Assignment.from_environ()
    several = assignment is not None and assignment.num_workers > 1
    mine = {cores[assignment.index % len(cores)]} if several else set(cores)
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), mine)


if __name__ == "__main__":
    main()
