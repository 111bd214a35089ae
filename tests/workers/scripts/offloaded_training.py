"""Trains with several optimizers, saves and goes on; says what each came to, and where the state was meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfdist
from tfdist.keras_repairs.sharding_policies.full_state import full_state
from tfdist.keras_repairs.sharding_policies.optimizer_policy import updating_optimizers
from tfdist.runtime.offload.disk_tensor import DiskTensor

OPTIMIZERS: dict[str, Any] = {
    "adam": lambda: keras.optimizers.Adam(clipnorm=0.1, use_ema=True, ema_overwrite_frequency=3, weight_decay=0.01),
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, global_clipnorm=0.5),
    "accumulation": lambda: keras.optimizers.RMSprop(gradient_accumulation_steps=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adagrad(0.1)),
    "whole": lambda: keras.optimizers.Lamb(),
}


def digest(model: Any) -> str:
    """Of all weights and of the optimizer's whole state."""
    with full_state(model):
        values = [*model.get_weights(), *(np.asarray(variable.numpy()) for variable in model.optimizer.variables)]
    return hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in values)).hexdigest()


def on_disk(optimizer: Any) -> int:
    """Tensors of its state that are on disk."""
    (inner,) = updating_optimizers(optimizer)
    return sum(isinstance(variable._value, DiskTensor) for variable in inner.variables)


def main(files: Path, given: str) -> None:
    """Trains each; goes on from the model that is there under `given`."""
    x = np.random.default_rng(5).normal(size=(38, 256)).astype("float32")
    said: dict[str, Any] = {}
    for name, make in OPTIMIZERS.items():
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(300, "tanh"), keras.layers.Dense(256)])
        model.compile(make(), "mse")
        model.fit(x, x, batch_size=16, epochs=2, verbose=0, shuffle=False)
        said[name] = {"trained": digest(model), "on disk": on_disk(model.optimizer)}
    model.save(files / "model.keras")
    again = keras.models.load_model(files / (given or "model.keras"))
    again.fit(x, x, batch_size=16, epochs=1, verbose=0, shuffle=False)
    said["gone on"] = digest(again)
    said["named files"] = sorted(os.listdir(Path(sys.argv[2])))
    print(json.dumps(said), flush=True)
    tfdist.barrier()


main(Path(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else "")
