"""Trains on batches of tfdist.data, of datasets and of arrays, and prints what came of each and which steps were whole.

The steps that XLA compiles as a whole are counted by what runs them.
"""

import json
from collections import Counter
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist
from tfdist.keras_repairs.loop import xla_step

SAMPLES, BATCH = 37, 8
X = np.random.default_rng(1).normal(size=(SAMPLES, 6)).astype("float32")
Y = np.random.default_rng(2).integers(0, 3, SAMPLES)
DATA: dict[str, Any] = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": BATCH},
    "tfdist.data": lambda: {"x": tfdist.data.arrays((X, Y), batch_size=BATCH, shuffle=False)},
    "dataset": lambda: {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)},
    "drawn once": lambda: {
        "x": tf.data.Dataset.from_tensor_slices((X, Y)).map(lambda x, y: (tf.sin(x), y)).batch(BATCH)
    },
    "batches of 6": lambda: {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(6, drop_remainder=True)},
    "batches of 5": lambda: {"x": X, "y": Y, "batch_size": 5},
}


def main() -> None:
    ran: Counter[str] = Counter()
    refused = xla_step.XlaSteps.__call__

    def counted(self: Any, batch: Any) -> Any:
        ran["one by one"] += 1
        return refused(self, batch)

    xla_step.XlaSteps.__call__ = counted  # type: ignore[method-assign]
    found = {}
    for name, make in DATA.items():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")])
        model.compile(keras.optimizers.SGD(0.5), "sparse_categorical_crossentropy")
        ran.clear()
        history = model.fit(**make(), epochs=3, shuffle=False, verbose=0).history
        found[name] = {"loss": history["loss"], "one by one": ran["one by one"]}
    print(json.dumps(found))


main()
