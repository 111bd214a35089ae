"""Trains, and in its first attempt kills one worker at a moment: `dying.py MOMENT WORKER`."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

MOMENT, CULPRIT = sys.argv[1], int(sys.argv[2])
INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def now(moment: str) -> None:
    if (moment, INDEX, os.environ["TFDIST_ATTEMPT"]) == (MOMENT, CULPRIT, "0"):
        os.kill(os.getpid(), signal.SIGKILL)


now("at start")

import keras  # noqa: E402
import numpy as np  # noqa: E402


class Dying(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        now(f"before step {batch + 1}")


class Saved(keras.layers.Dense):
    def save_own_variables(self, store: Any) -> None:
        now("while saving")
        super().save_own_variables(store)


model = keras.Sequential([keras.Input((4,)), Saved(2)])
model.compile("sgd", "mse")
x, y = np.ones((33, 4), "float32"), np.ones((33, 2), "float32")
model.fit(x, y, batch_size=4, verbose=0, callbacks=[Dying()])
model.save(os.path.join(os.environ["TFDIST_RUN_DIR"], "saved.keras"))
print(f"steps {int(model.optimizer.iterations.numpy())}", flush=True)
