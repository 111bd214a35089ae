"""Trains the models of rows and sorts their numbers by row."""

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


def measured(rows: Sequence[Row], samples: int, *, eagerly: bool = False) -> dict[str, dict[str, Any]]:
    """Trains rows in one model, those apart in one of their own, for an epoch; returns each row's numbers by its name.

    A row that is alone is asked for its predictions, too.

    Args:
        rows: Of one section.
        samples: How many there are, in batches of 32.
        eagerly: Whether steps run without being compiled.
    """
    together = [row for row in rows if not row.is_apart]
    models = [together] if together else []
    found: dict[str, dict[str, Any]] = {}
    for several in [*models, *([row] for row in rows if row.is_apart)]:
        found |= _trained(several, samples, eagerly)
    return found


def _trained(rows: Sequence[Row], samples: int, eagerly: bool) -> dict[str, dict[str, Any]]:
    before = keras.backend.floatx()
    _forget()
    floatx = "float32" if all(row.tolerance == FLOAT32 for row in rows) else "float64"
    keras.backend.set_floatx(floatx)
    keras.config.set_dtype_policy(floatx)
    keras.utils.set_random_seed(11)
    try:
        fitting = of_rows(rows, samples)
        fitting.model.run_eagerly = eagerly
        data = tf.data.Dataset.from_tensor_slices((fitting.x, fitting.y)).batch(BATCH)
        fit = fitting.model.fit(data, verbose=0)
        predicted = fitting.model.predict(data, verbose=0) if rows[0].section == "layers" and len(rows) == 1 else {}
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
