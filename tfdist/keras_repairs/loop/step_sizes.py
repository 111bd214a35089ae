"""Traces a step for batches of any size, or of one where it needs a number.

The pieces of a replica may all be of one size, as of arrays that divide. What a step draws for rows that it has put
together itself, two batches in one, would then have a number for its size, of which nobody knows where it comes from;
and an array that it logs or predicts may have as many rows as the replica has samples. In a graph for batches of any
size that can be seen.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.errors import UnsupportedError
from tfdist.keras_repairs.base.batch_rows import has_rows, static_rows
from tfdist.keras_repairs.base.replica_step import TraceAgain, UnclearSizeError
from tfdist.runtime.batches.replica_batches import ReplicaBatch
from tfdist.runtime.transport.compiled_sums import CannotBeCompiled
from tfdist.text import safe_str


class Trace(enum.Enum):
    """The trace of a step, each asked for where the one before it fails: `ANY_SIZE` to `ONE_SIZE` to `WHOLE`, or at
    once to `WHOLE` where the pieces of the replicas differ in size."""

    ANY_SIZE = enum.auto()
    ONE_SIZE = enum.auto()
    """For pieces of one size, which the step is told."""
    WHOLE = enum.auto()
    """For global batches of one size, which every replica takes whole."""


class StepSizes:
    """The choice whether the traces of one step know the size of its batches: they do where it needs that.

    Args:
        replicas: How many replicas there are.
        can_run_whole: Whether the step may run on the whole global batch.
    """

    def __init__(self, replicas: int, *, can_run_whole: bool) -> None:
        self._replicas = replicas
        self._can_run_whole = can_run_whole
        self._trace = Trace.ANY_SIZE
        self._after: dict[Trace, Trace] = {}
        self.runs_whole = False
        """Whether every replica takes the whole global batch in the trace for the piece that was given last."""

    def given(self, piece: ReplicaBatch) -> tuple[Any, int | None]:
        """The data of a replica's step, of any size in a trace for that, and the size of the global batch in others."""
        total = None if isinstance(piece.extent, tuple) else piece.extent.shape[0]
        is_known = static_rows(piece.data) is not None
        self._after = {} if tf.executing_eagerly() else self._traces(total, is_known=is_known)
        self.runs_whole = self._trace is Trace.WHOLE and total is not None
        if self._trace is Trace.ANY_SIZE and is_known and not tf.executing_eagerly():
            return tf.nest.map_structure(_of_any_size, piece.data), None
        return piece.data, None if self._trace is Trace.ANY_SIZE else total

    def _traces(self, total: int | None, *, is_known: bool) -> dict[Trace, Trace]:
        """The trace that is asked for after each."""
        whole = Trace.WHOLE if total is not None and self._can_run_whole else None
        # Replicas with pieces of other sizes could find other things in them.
        is_even = total is None or total % self._replicas == 0
        one_size = Trace.ONE_SIZE if is_known and (is_even or whole is None) else whole
        after = {Trace.ANY_SIZE: one_size, Trace.ONE_SIZE: whole}
        return {trace: other for trace, other in after.items() if other is not None}

    def check(self, outputs: Any) -> None:
        """Asks for another trace where a step returns a size that is not known in this one, such as `y.shape[0]`.

        Raises:
            TraceAgain: It is to be traced once more.
        """
        is_unknown = self._trace is Trace.ANY_SIZE and any(leaf is None for leaf in tf.nest.flatten(outputs))
        if is_unknown and self._trace in self._after:
            self._trace = self._after[self._trace]
            raise TraceAgain

    @contextlib.contextmanager
    def retracing(self) -> Iterator[None]:
        """Runs the step; asks for another trace where it fails, or what has the size of a piece cannot be told.

        Raises:
            TraceAgain: It is to be traced once more.
        """
        try:
            yield
        except (TraceAgain, CannotBeCompiled):
            raise
        except Exception as error:  # Whatever the user's code raises that expects a number.
            _explain(error)
            is_refusal = isinstance(error, UnsupportedError) and not isinstance(error, UnclearSizeError)
            if is_refusal or self._trace not in self._after:
                raise
            self._trace = self._after[self._trace]
            raise TraceAgain from error


_HINT = (
    "Where that is the first size of a tensor, x.shape[0]: it is None in a step that is traced for batches of any size "
    "and, on several replicas, in predict_step. Write keras.ops.shape(x)[0], which is right anywhere."
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
