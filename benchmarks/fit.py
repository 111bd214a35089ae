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

from tfdist.launch.environment import Assignment

BATCH = 256


def main() -> None:
    """Parses the command line, times and prints."""
    parser = argparse.ArgumentParser(description="Times Keras fit in this process.")
    parser.add_argument("model")
    parser.add_argument("steps", type=int)
    parser.add_argument("--cores", help="worker I of several runs on the I-th of these cores alone")
    options = parser.parse_args()
    if options.cores:
        pin([int(core) for core in options.cores.split(",")])
    print(json.dumps({"model": options.model, "steps_per_second": time_fit(options.model, options.steps)}), flush=True)


def time_fit(name: str, steps: int) -> float:
    """Steps a second of `fit` with global batches of 256, after one epoch that is not counted."""
    import tensorflow as tf

    from benchmarks import models

    model = models.build(name)
    batches = tf.data.Dataset.from_tensor_slices(models.data(name, 8 * BATCH)).batch(BATCH, drop_remainder=True)
    batches = batches.cache().repeat()
    model.fit(batches, steps_per_epoch=10, epochs=1, verbose=0, shuffle=False)
    begun = time.perf_counter()
    model.fit(batches, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
    return steps / (time.perf_counter() - begun)


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
