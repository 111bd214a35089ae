"""Gradients that an optimizer was to get, as arrays that can be added up and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.keras_repairs.coupling.trials.trial_notes import Update

Slices: TypeAlias = tuple[NDArray | None, NDArray]
"""Rows and their values; rows are None of a dense tensor."""

_SAMPLED = 1 << 14
"""The elements that `sampled` keeps of a gradient: what differs in a weight at all differs in many of its elements."""


def slices_of(update: Update) -> list[Slices]:
    """The gradients of an update as slices, see `Slices`."""
    return [_rows_of(gradient) for gradient in update.gradients]


def largest_of(gradients: Sequence[Slices]) -> float:
    """The largest number in gradients, which may be infinite or NaN; 0 where there is none."""
    return max((float(np.abs(values).max()) for _, values in gradients if values.size), default=0.0)


def _rows_of(gradient: Any) -> Slices:
    """A gradient as slices, each row once; a dense one has no rows, and None no values either."""
    if gradient is None:
        return None, np.zeros(0)
    if isinstance(gradient, tf.IndexedSlices):
        return _joined(np.asarray(gradient.indices), as_float64(gradient.values))
    return None, as_float64(gradient)


def _joined(rows: NDArray, values: NDArray) -> Slices:
    unique, places = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(unique), *values.shape[1:]))
    np.add.at(sums, places, values)
    return unique, sums


def added(gradients: Sequence[Slices], weights: Sequence[float]) -> Slices:
    """The weighted sum of some gradients by one variable."""
    present = [
        (rows, weight * values) for (rows, values), weight in zip(gradients, weights, strict=True) if values.size
    ]
    if not present:
        return None, np.zeros(0)
    if any(rows is None for rows, _ in present):
        return None, np.sum([values for _, values in present], axis=0)
    rows, values = zip(*present, strict=True)
    return _joined(np.concatenate(rows), np.concatenate(values))


def are_same(one: Sequence[Slices], other: Sequence[Slices], tolerance: float) -> bool:
    """Returns whether gradients by some variables are the same, up to an absolute tolerance."""
    return all(_is_same_gradient(*pair, tolerance) for pair in zip(one, other, strict=True))


def _is_same_gradient(one: Slices, other: Slices, tolerance: float) -> bool:
    _, difference = added([one, other], (1.0, -1.0))
    return not difference.size or float(np.abs(difference).max()) <= tolerance


def as_float64(value: Any) -> NDArray:
    """A tensor, or a number, in float64."""
    return np.asarray(tf.cast(keras.ops.convert_to_tensor(value), tf.float64))


def sampled(update: Update) -> Update:
    """An update of which large dense gradients are some of their elements, the same ones of gradients of one shape."""
    return replace(update, gradients=[_sampled(gradient) for gradient in update.gradients])


def _sampled(gradient: Any) -> Any:
    size = tf.size(gradient).numpy() if isinstance(gradient, tf.Tensor) else 0
    return gradient if size <= _SAMPLED else tf.reshape(gradient, [-1])[:: size // _SAMPLED | 1]
