"""A model whose training has all that a checkpoint must hold, and what two runs of it are compared by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from tests.helpers.cut_weights import cut_all
from tests.helpers.plain_graphs import leave_graphs_plain
from tfdist.checkpoint.shards.joined_file import opened_weights
from tfdist.rundir import RunDir

SAMPLES, FEATURES, CLASSES, BATCH, EPOCHS = 203, 6, 4, 8, 9
STEPS = -(-SAMPLES // BATCH)


def model(plain: bool = False, cut: bool = False, recomputed: bool = False) -> keras.Model:
    """Dropout has seeds, batch normalisation statistics that each replica has for itself; `plain` has neither.

    With `cut` workers that hold parts of weights hold parts of these, small as they are; with `recomputed` the layers'
    activations are computed again in the backward pass.
    """
    leave_graphs_plain()
    if cut:
        cut_all()
    with keras.RematScope("full" if recomputed else None):
        return _layers(plain)


def _layers(plain: bool) -> keras.Model:
    extra = [] if plain else [keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
    head = keras.layers.Dense(CLASSES, activation="softmax")
    return keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(12, activation="relu"), *extra, head])


def write_config(folder: Path, **changes: Any) -> Path:
    """A config of the model and data for it; JSON is YAML, too."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(SAMPLES + 50, FEATURES)).astype(np.float32)
    y = x[:, :CLASSES].argmax(axis=1)
    data = folder / "data.npz"
    np.savez(data, x_train=x[:SAMPLES], y_train=y[:SAMPLES], x_test=x[SAMPLES:], y_test=y[SAMPLES:])
    content = {
        "name": "resumed",
        "model": {"build": "tests.helpers.resumable_model.model"},
        "compile": {
            "optimizer": {"name": "adam", "learning_rate": 0.01, "use_ema": True, "gradient_accumulation_steps": 3},
            "loss": "sparse_categorical_crossentropy",
            "metrics": ["accuracy"],
        },
        "data": {
            "batch_size": BATCH,
            "train": {"format": "npz", "path": str(data), "split": "train", "shuffle": True},
            "validation": {"format": "npz", "path": str(data), "split": "test"},
        },
        "fit": {"epochs": EPOCHS},
        "checkpoint": {"every_steps": 5, "keep": 2},
        **changes,
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(content))
    return path


@dataclass(frozen=True)
class End:
    """What a run has left.

    Attributes:
        history: Metric -> one float an epoch.
        lines: `metrics.jsonl`, without the times.
        model: The weights of the saved model.
        state: Weights and the optimizer's state of the last checkpoint, and the values of each replica.
    """

    history: dict[str, list[float]]
    lines: list[dict[str, float]]
    model: list[np.ndarray]
    state: dict[str, np.ndarray]


def end_of(run: RunDir) -> End:
    """Reads what a run has left."""
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    last = sorted(run.checkpoints_dir.glob("step-*"))[-1]
    state: dict[str, np.ndarray] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            state[name] = item[()]

    with opened_weights(last) as file, h5py.File(file) as weights:
        weights.visititems(add)
    with np.load(last / "replicas.npz", allow_pickle=False) as replicas:
        state |= dict(replicas)
    return End(
        json.loads(run.history_file.read_text()),
        [{name: value for name, value in line.items() if name != "time"} for line in lines],
        keras.models.load_model(run.model_file).get_weights(),
        state,
    )
