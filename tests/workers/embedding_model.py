"""A model with a table, and data for it, whose training is killed and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.helpers.plain_graphs import leave_graphs_plain

ROWS, SAMPLES, LENGTH, BATCH, EPOCHS = 61, 203, 5, 8, 9


def model(dtype: str = "float64") -> keras.Model:
    """Smooth, and in float64, so that any number of workers has the same numbers but for rounding."""
    leave_graphs_plain()
    keras.config.set_dtype_policy(dtype)
    table, head = keras.layers.Embedding(ROWS, 6), keras.layers.Dense(4, activation="softmax")
    return keras.Sequential([keras.Input((LENGTH,)), table, keras.layers.GlobalAveragePooling1D(), head])


def write_config(folder: Path, **changes: Any) -> Path:
    """A config of the model and data for it; JSON is YAML, too."""
    generator = np.random.default_rng(5)
    x = generator.integers(0, ROWS, (SAMPLES, LENGTH))
    data = folder / "data.npz"
    np.savez(data, x_train=x, y_train=x.sum(axis=1) % 4, x_test=x[:50], y_test=x[:50].sum(axis=1) % 4)
    content = {
        "name": "embeddings",
        "seed": 3,
        "model": {"build": "tests.workers.embedding_model.model"},
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
