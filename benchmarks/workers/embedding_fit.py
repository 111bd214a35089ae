"""Trains a recommender's table and says what it takes: `embedding_fit OUT SETTINGS`, under `tfdist train`.

Worker I writes OUT.I with its samples a second and its memory, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfdist

FEATURES = 8
"""Ids of a sample."""

WARM_UP = 3
"""Batches before those that are timed."""


class Rate(keras.callbacks.Callback):
    """Times all batches but the first ones."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = self.end = 0.0
        self.batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Notes the time."""
        self.end = time.perf_counter()
        if batch + 1 == WARM_UP:
            self.begin = self.end
        self.batches += batch + 1 > WARM_UP


def main(out: str, settings: str) -> None:
    """Trains, and writes what it took."""
    given = json.loads(settings)
    rows, dim, batch, steps = (given[name] for name in ("rows", "dim", "batch", "steps"))
    keras.utils.set_random_seed(1)
    generator = np.random.default_rng(1)
    # Half of the ids are of popular rows, as in logs of clicks.
    ids = generator.integers(0, rows, ((steps + WARM_UP) * batch, FEATURES))
    ids[:, : FEATURES // 2] %= max(1, rows // 1000)
    clicked = generator.integers(0, 2, len(ids)).astype("float32")
    before = _peak()
    table = keras.layers.Embedding(rows, dim)
    model = keras.Sequential([keras.Input((FEATURES,)), table, keras.layers.Flatten(), keras.layers.Dense(1)])
    optimizer = keras.optimizers.get({"class_name": given["optimizer"], "config": {"learning_rate": 0.01}})
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    rate = Rate()
    model.fit(ids, clicked, batch_size=batch, shuffle=False, verbose=0, callbacks=[rate])
    said = {
        "samples": rate.batches * batch / (rate.end - rate.begin),
        "peak": _peak() - before,
        "loss": float(model.history.history["loss"][-1]),
    }
    Path(f"{out}.{tfdist.worker_index()}").write_text(json.dumps(said))


def _peak() -> int:
    """Bytes that the process has had in memory at once at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
