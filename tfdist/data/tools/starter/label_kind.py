"""Kind of labels: classes or numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfdist.errors import DataError

MOST_CLASSES = 1000
"""Whole numbers above are taken for quantities."""


@dataclass(frozen=True)
class Labels:
    """What the labels of some samples are.

    Attributes:
        kind: `classes` for their numbers, `one_hot`, or `numbers` for what is to be predicted as it is.
        size: How many classes, or how many numbers a label has.
    """

    kind: Literal["classes", "one_hot", "numbers"]
    size: int

    @property
    def words(self) -> str:
        """`10 classes`, or `3 numbers`."""
        word = "number" if self.kind == "numbers" else "class"
        plural = {"number": "numbers", "class": "classes"}[word]
        return f"{self.size} {word if self.size == 1 else plural}"


def labels_of(values: NDArray) -> Labels:
    """What labels are, of shape [k] or [k, n].

    Raises:
        DataError: They are no numbers, or have another shape.
    """
    if values.dtype.kind not in "biuf" or values.ndim not in (1, 2):
        raise DataError(
            f"The labels have the type {values.dtype} and the shape {values.shape}. Expected numbers, one or a row of "
            "them for each sample."
        )
    if values.ndim == 2 and values.shape[1] > 1:
        is_one_hot = bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())
        return Labels("one_hot" if is_one_hot else "numbers", values.shape[1])
    is_whole = bool(np.isfinite(values).all() and (values == np.round(values)).all())
    if is_whole and values.min() >= 0 and values.max() < min(MOST_CLASSES, max(2, len(values))):
        return Labels("classes", int(values.max()) + 1)
    return Labels("numbers", 1)
