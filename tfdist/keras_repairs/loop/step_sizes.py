"""Traces a step for batches of any size, or of one where it needs a number.

The pieces of a replica may all be of one size, as of arrays that divide. What a step draws for rows that it has put
together itself, two batches in one, would then have a number for its size, of which nobody knows where it comes from;
and an array that it logs or predicts may have as many rows as the replica has samples. In a graph for batches of any
size that can be seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import has_rows, static_rows
from tfdist.keras_repairs.base.replica_step import TraceAgain
from tfdist.runtime.transport.compiled_sums import CannotBeCompiled
from tfdist.text import safe_str


class StepSizes:
    """The choice whether the traces of one step know the size of its batches: they do where it needs that."""

    def __init__(self) -> None:
        self._of_any_size = True
        self._changes = False

    def given(self, batch: Any) -> Any:
        """The batch of the step, of any size in a trace for that."""
        self._changes = static_rows(batch) is not None and not tf.executing_eagerly()
        if not self._changes or not self._of_any_size:
            return batch
        return tf.nest.map_structure(_of_any_size, batch)

    @contextlib.contextmanager
    def retracing(self) -> Iterator[None]:
        """Runs the step; asks for the other trace where it fails for batches of any size.

        Raises:
            TraceAgain: It is to be traced once more.
        """
        try:
            yield
        except (TraceAgain, UnsupportedError, CannotBeCompiled):
            raise
        except Exception as error:  # Whatever the user's code raises that expects a number.
            _explain(error)
            if not self._of_any_size or not self._changes:
                raise
            self._of_any_size = False
            raise TraceAgain from error


_HINT = (
    "Where that is the first size of a tensor, x.shape[0]: it is None in a step on several replicas, and in what is "
    "called with the samples of all of them. Write keras.ops.shape(x)[0], which is right anywhere."
)


def _explain(error: Exception) -> None:
    """Adds to an error of the user's code what may be its cause."""
    is_of_none = isinstance(error, TypeError | ValueError) and "None" in safe_str(error)
    if is_of_none and _HINT not in getattr(error, "__notes__", []):
        error.add_note(_HINT)


def _of_any_size(leaf: Any) -> Any:
    if not has_rows(leaf):
        return leaf
    if isinstance(leaf, tf.Tensor):
        return _opened(leaf)
    if isinstance(leaf, tf.SparseTensor):
        rows, *others = tf.unstack(leaf.dense_shape)
        sizes = zip(others, leaf.shape[1:], strict=True)
        known = [other if size is None else tf.constant(size, tf.int64) for other, size in sizes]
        return tf.SparseTensor(leaf.indices, leaf.values, tf.stack([_opened(rows), *known]))
    if leaf.uniform_row_length is not None:
        return tf.RaggedTensor.from_uniform_row_length(leaf.values, leaf.uniform_row_length, _opened(leaf.nrows()))
    return tf.RaggedTensor.from_row_splits(leaf.values, _opened(leaf.row_splits), validate=False)


def _opened(tensor: tf.Tensor) -> tf.Tensor:
    """The tensor in a graph that does not know its first dimension, or the value of a scalar."""
    shape = [None, *tensor.shape[1:]] if tensor.shape.rank else []
    return tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=shape)
