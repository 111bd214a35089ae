"""Sizes of the batch that are plain numbers: in steps that run eagerly, or that are traced for one size of batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import dtypes

from tfdist.keras_repairs.base.replica_step import current_step

Function = Callable[..., Any]


class BatchSize(int):
    """A size that is that of the batch, or a multiple of it: a number as any other, which says where it is from."""

    def __mul__(self, other: Any) -> Any:
        product = int(self) * other
        return BatchSize(product) if isinstance(other, int) else product

    __rmul__ = __mul__


# Keras looks the type of a number up, as in `ops.arange(ops.shape(x)[0])`, and knows no other than Python's own.
dtypes.PYTHON_DTYPES_MAP[BatchSize] = dtypes.PYTHON_DTYPES_MAP[int]


def shape(original: Function) -> Function:
    """Repairs `keras.src.backend.tensorflow.core.shape`: marks a first dimension that is the number of rows.

    In graphs whose batches are of any size it is a tensor, and its origin can be seen. Variables have no such rows.
    """

    def repaired(x: Any) -> tuple[Any, ...]:
        sizes = original(x)
        step = None if isinstance(x, keras.Variable | tf.Variable) else current_step()
        if step is None or step.share.static_rows is None or not sizes or not _is(sizes[0], step.share.static_rows):
            return sizes
        return (BatchSize(sizes[0]), *sizes[1:])

    return repaired


def _is(size: Any, rows: int) -> bool:
    """Returns whether a size is this number: one of a tensor that has lost its shape is itself a tensor."""
    return isinstance(size, int) and size == rows
