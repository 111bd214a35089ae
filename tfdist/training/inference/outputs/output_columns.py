"""Columns of predictions: the outputs of a model by name, as files hold them. Nothing here loads TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INDEX = "index"
"""The column with the number of each sample, from 0."""

STRING = "string"
"""The dtype of a column of texts, whose arrays have `bytes` as objects."""

KINDS = frozenset(
    ["bool", STRING, *(f"float{bits}" for bits in (16, 32, 64))]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
"""The types that a column can have."""


@dataclass(frozen=True)
class OutputColumn:
    """One output.

    Attributes:
        name: Its name.
        dtype: NumPy's name of its type, or `string`.
        shape: Of a sample.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def is_text(self) -> bool:
        """True if its values are texts."""
        return self.dtype == STRING

    @property
    def size(self) -> int:
        """Values of a sample."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape) if self.shape else ''}"


def column_of(name: str, array: NDArray) -> OutputColumn:
    """The column that an array of `arrays_of` belongs to."""
    return OutputColumn(name, STRING if array.dtype.hasobject else array.dtype.name, array.shape[1:])
