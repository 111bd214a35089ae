"""Predictions and labels that are made up to try out a loss: labels that fit the predictions, in several draws."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from tfdist.keras_repairs.coupling.trials.split_comparison import FREE_SIZE, ROWS

DRAWS = 4

IGNORING_DRAWS = 2
"""Draws, the first ones, that are tried with ignored labels, too."""

IGNORED = (-1, -100, 255, math.nan)
"""Labels that functions of many projects leave out; a mean over the others is none over the samples."""

_IGNORED_ROWS = [0, -1]
"""Rows with such labels: one of the two in the first part, and one of the three in the second."""


def drawn(y_true: Any, y_pred: Any, draw: int) -> tuple[Any, Any]:
    """Labels and predictions of five rows, of the structures, dtypes and trailing dimensions of those given.

    Args:
        y_true: Labels.
        y_pred: Predictions.
        draw: Which draw, below `DRAWS`. In even ones labels are over all classes of the predictions, which are
            probabilities; in odd ones of two classes alone, so that several rows share one, and predictions are of any
            size.
    """
    generator = np.random.default_rng(draw)
    pred = keras.tree.map_structure(lambda spec: _predictions(spec, draw, generator), y_pred)
    return _labels_for(y_true, y_pred, draw, generator), pred


def ignoring(y_true: Any, label: float) -> Any:
    """Labels of which some are `label`; None where their dtype has no such number."""
    trues = keras.tree.flatten(y_true)
    if not all(holds(true.dtype, label) for true in trues):
        return None

    def some_ignored(true: NDArray) -> NDArray:
        ignored = true.copy()
        ignored[_IGNORED_ROWS] = label
        return ignored

    return keras.tree.map_structure(some_ignored, y_true)


def holds(dtype: np.dtype[Any], label: float) -> bool:
    """Returns whether numbers of a dtype can be `label`."""
    if dtype.kind not in "iu":
        return dtype.kind == "f"
    return not math.isnan(label) and np.iinfo(dtype).min <= label <= np.iinfo(dtype).max


def _labels_for(y_true: Any, y_pred: Any, draw: int, generator: np.random.Generator) -> Any:
    trues, preds = keras.tree.flatten(y_true), keras.tree.flatten(y_pred)
    partners = preds if len(preds) == len(trues) else [preds[0]] * len(trues)
    made = [_labels(true, pred, draw, generator) for true, pred in zip(trues, partners, strict=True)]
    return keras.tree.pack_sequence_as(y_true, made)


def _labels(true: Any, pred: Any, draw: int, generator: np.random.Generator) -> NDArray:
    shape = _shape(true)
    dtype = true.dtype.as_numpy_dtype
    classes = _classes(pred)
    if shape == _shape(pred):
        if draw >= 2 and true.dtype.is_floating:
            return generator.uniform(0.05, 0.95, shape).astype(dtype)
        if len(shape) > 1 and shape[-1] > 1:
            hot = generator.integers(0, shape[-1] if draw % 2 == 0 else 2, shape[:-1])
            return np.eye(shape[-1])[hot].astype(dtype)
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.integers(0, classes if draw % 2 == 0 else 2, shape).astype(dtype)


def _predictions(pred: Any, draw: int, generator: np.random.Generator) -> NDArray:
    shape = _shape(pred)
    if not pred.dtype.is_floating:
        return generator.integers(0, 2, shape).astype(pred.dtype.as_numpy_dtype)
    if draw % 2 == 1:
        return generator.normal(size=shape).astype(pred.dtype.as_numpy_dtype)
    values = generator.uniform(0.05, 0.95, shape)
    if len(shape) > 1 and shape[-1] > 1:
        values /= values.sum(axis=-1, keepdims=True)
    return values.astype(pred.dtype.as_numpy_dtype)


def _classes(pred: Any) -> int:
    shape = _shape(pred)
    return max(2, shape[-1]) if len(shape) > 1 else 2


def _shape(tensor: Any) -> tuple[int, ...]:
    return (ROWS, *(size or FREE_SIZE for size in tensor.shape[1:]))
