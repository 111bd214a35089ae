"""Trains on batches of which each worker is given its own rows, as many as it likes; one ends before the others.

Prints the numbers. Run with the kinds of distributions. On one device a batch has the rows of all workers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import tfdist

UNEVEN = ((7, 4, 1, 6), (3, 9))
SIZES = {"data": UNEVEN, "groups": UNEVEN, "python": UNEVEN, "last": ((), (2, 5)), "model": ((5, 1, 4),)}
"""Kind -> the rows of the batches of each share."""

devices = keras.distribution.list_devices()
keras.config.set_floatx("float64")
rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))


def shares_of(kind: str) -> list[list[list[int]]]:
    """The rows of the batches of each share, of the rows of the global batches in their order."""
    sizes, place, found = SIZES[kind], 0, [[] for _ in SIZES[kind]]
    for step in range(max(map(len, sizes))):
        for share, own in zip(found, sizes, strict=True):
            if step < len(own):
                share.append(list(range(place, place + own[step])))
                place += own[step]
    return found


class Sequence(keras.utils.PyDataset):
    """Batches that Python code makes, in threads."""

    def __init__(self, batches: list[list[int]]) -> None:
        super().__init__(workers=2)
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, place: int) -> Any:
        return x[self._batches[place]], y[self._batches[place]]


def dataset(kind: str) -> tf.data.Dataset | Sequence:
    """Of this worker's share; with one worker of all."""
    shares = shares_of(kind)
    own = shares[tfdist.worker_index() * len(shares) // len(devices)]
    if len(devices) == 1:
        steps = max(map(len, shares))
        own = [sum((share[step] for share in shares if step < len(share)), []) for step in range(steps)]
    if kind == "python":
        return Sequence(own)

    def batches() -> Iterator[Any]:
        yield from ((x[rows], y[rows]) for rows in own)

    specs = (tf.TensorSpec([None, 5], tf.float64), tf.TensorSpec([None, 2], tf.float64))
    made = tf.data.Dataset.from_generator(batches, output_signature=specs)
    return made if kind == "groups" else made.apply(tf.data.experimental.assert_cardinality(len(own)))


def distribute(kind: str) -> None:
    """Sets the distribution of a kind."""
    if len(devices) == 1:
        return
    if kind in ("data", "last", "python"):
        chosen = keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False)
    else:
        groups = len(SIZES[kind])
        mesh = keras.distribution.DeviceMesh((groups, len(devices) // groups), ["batch", "model"], devices)
        layout = keras.distribution.LayoutMap(mesh)
        layout["up/kernel"] = (None, "model")
        layout["down/kernel"] = ("model", None)
        chosen = keras.distribution.ModelParallel(
            layout_map=layout, batch_dim_name="batch", auto_shard_dataset=False
        )
    keras.distribution.set_distribution(chosen)


found = {}
for kind in sys.argv[1:]:
    keras.utils.set_random_seed(3)
    distribute(kind)
    inputs = keras.Input((5,))
    hidden = layers.Dropout(0.3)(layers.BatchNormalization()(layers.Dense(8, "tanh", name="up")(inputs)))
    model = keras.Model(inputs, layers.Dense(2, name="down")(hidden))
    model.compile(keras.optimizers.Adam(0.01, global_clipnorm=0.5), "mse", metrics=["mae"])
    data = dataset(kind)
    fitted = model.fit(data, epochs=2, validation_data=data, shuffle=False, verbose=0).history
    evaluated, predicted = model.evaluate(data, verbose=0), model.predict(data, verbose=0).tolist()
    found[kind] = [fitted, evaluated, predicted, [np.asarray(weight).tolist() for weight in model.weights]]
print(json.dumps(found))
