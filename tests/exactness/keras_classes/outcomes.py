"""Trains the model of rows and sorts its numbers by row."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.exactness.keras_classes.models import Fitting, of_rows
from tests.exactness.keras_classes.rows import FLOAT32, Row
from tests.exactness.table import BATCH


def measured(
    rows: Sequence[Row], samples: int, *, eagerly: bool = False, predicts: bool = True
) -> dict[str, dict[str, Any]]:
    """Trains rows in one model for an epoch; returns each row's numbers by its name.

    Args:
        rows: What one model shows, see `table.models_of`, or one row alone.
        samples: How many there are, in batches of 32.
        eagerly: Whether steps run without being compiled. Each takes long, and batches are of 64 for that.
        predicts: Whether layers are asked for their predictions, too.
    """
    before = keras.backend.floatx()
    _forget()
    floatx = "float32" if all(row.tolerance == FLOAT32 for row in rows) else "float64"
    keras.backend.set_floatx(floatx)
    keras.config.set_dtype_policy(floatx)
    keras.utils.set_random_seed(11)
    try:
        fitting = of_rows(rows, samples)
        fitting.model.run_eagerly = eagerly
        data = tf.data.Dataset.from_tensor_slices((fitting.x, fitting.y)).batch(2 * BATCH if eagerly else BATCH)
        fit = fitting.model.fit(data, verbose=0)
        predicted = fitting.model.predict(data, verbose=0) if predicts and rows[0].section == "layers" else {}
        return {row.name: _numbers_of(row, fitting, fit.history, predicted, alone=len(rows) == 1) for row in rows}
    finally:
        keras.backend.set_floatx(before)
        _forget()
        keras.config.set_dtype_policy(before)


def _numbers_of(
    row: Row, fitting: Fitting, history: dict[str, Any], predicted: dict[str, Any], *, alone: bool
) -> dict[str, Any]:
    def is_mine(name: str) -> bool:
        return alone or row.key in name.replace("/", "_").split("_")

    numbers = {
        "history": {name: values for name, values in history.items() if is_mine(name)},
        "weights": {
            f"{number}:{weight.path}": np.asarray(weight).tolist()
            for number, weight in enumerate(fitting.model.weights)
            if is_mine(weight.path) and "seed" not in weight.path
        },
        "predictions": np.asarray(predicted[row.key]).tolist() if predicted else [],
    }
    if not numbers["history"] and not numbers["weights"]:
        raise LookupError(f"{row.name} has left no number among {sorted(history)}.")
    return numbers


def _forget() -> None:
    keras.backend.clear_session(free_memory=False)
    gc.collect()
