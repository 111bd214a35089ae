"""Relative difference of two numbers or two arrays."""

from __future__ import annotations

import math

import numpy as np

DATA_TOLERANCE = 1e-9
"""Up to where sums over the samples of a batch, in float64, are the same: their order is all that differs."""


def relative(a: float, b: float) -> float:
    """`|a - b|` over the larger magnitude; NaN and infinities are equal to themselves alone."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


def relative_arrays(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> float:
    """The root mean square of the differences over the larger one of both arrays' elements.

    A mean, because rounding may turn the sign of a gradient element near 0, and some optimizers use only the sign.

    Args:
        a: An array of any shape.
        b: The other one; infinitely far away where its shape differs.
        least: The least magnitude that the difference is divided by.
    """
    if a.shape != b.shape:
        return math.inf
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not (np.isfinite(a[~same]).all() and np.isfinite(b[~same]).all()):
        return math.inf
    finite = np.isfinite(a)
    magnitude = max(root_mean_square(a[finite]), root_mean_square(b[finite]), least)
    return root_mean_square(np.where(same, 0.0, a - b)) / magnitude


def root_mean_square(array: np.ndarray) -> float:
    """The root mean square of a float64 array; 0 for an empty one."""
    largest = float(np.max(np.abs(array), initial=0.0))
    # Not of the elements themselves: in float64 their squares may be infinite, or 0.
    return largest * float(np.sqrt(np.mean(np.square(array / largest)))) if 0 < largest < math.inf else largest


def json_number(value: float | None) -> float | str | None:
    """A number for JSON, where NaN and infinities become texts."""
    return value if value is None or math.isfinite(value) else str(value)
