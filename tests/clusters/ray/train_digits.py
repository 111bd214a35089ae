"""Trains digits by `tfdist.ray.Trainer`: NAME STORAGE WORKERS SECONDS, where each step takes so long at least.

A file `STORAGE/NAME.step` tells how far it is. The weights are `STORAGE/NAME.npz`, and the last line that is printed is
the result as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ray
import ray.train

import tfdist.ray

DATA = Path(__file__).parents[3] / "examples/data/digits.npz"


def train(config: dict[str, Any]) -> None:
    import time

    import keras
    import numpy as np

    import tfdist

    with np.load(config["data"]) as digits:
        x, y = digits["x_train"][:1000] / 16.0, digits["y_train"][:1000]
    keras.utils.set_random_seed(7)
    dense, dropout = keras.layers.Dense, keras.layers.Dropout
    model = keras.Sequential([keras.Input([64]), dense(32, activation="relu"), dropout(0.2), dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    out = Path(config["storage"])

    class Slow(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if config["seconds"]:
                time.sleep(config["seconds"])
                if tfdist.is_chief():
                    (out / f"{config['name']}.step").write_text(str(int(self.model.optimizer.iterations)))

    callbacks = [*tfdist.ray.callbacks(every_steps=3), Slow()]
    model.fit(x, y, batch_size=100, epochs=3, callbacks=callbacks, verbose=0)
    if tfdist.is_chief():
        np.savez(out / f"{config['name']}.npz", *model.get_weights())


def main() -> None:
    name, storage, workers, seconds = sys.argv[1:]
    ray.init("auto", logging_level="ERROR")
    result = tfdist.ray.Trainer(
        train,
        train_loop_config={"name": name, "storage": storage, "seconds": float(seconds), "data": str(DATA)},
        scaling_config=ray.train.ScalingConfig(num_workers=int(workers), placement_strategy="SPREAD"),
        run_config=ray.train.RunConfig(
            name=name, storage_path=storage, failure_config=ray.train.FailureConfig(max_failures=2)
        ),
        seed=7,
    ).fit()
    print(json.dumps({"metrics": result.metrics, "checkpoint": result.checkpoint and result.checkpoint.path}))


if __name__ == "__main__":
    main()
