"""Traces a step for batches of any size, where it is not clear of what a number in it is the size.

The pieces of a replica may all be of one size, as of arrays that divide. What a step draws for rows that it has put
together itself, two batches in one, then has a number for its size, of which nobody knows where it comes from. In a
graph for batches of any size that can be seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.keras_repairs.base.batch_rows import has_rows
from tfdist.keras_repairs.loop.step_execution import TraceAgain
from tfdist.keras_repairs.random_numbers.draw_sizes import UnclearSizeError


class StepSizes:
    """Whether the traces of one step know the size of its batches."""

    def __init__(self) -> None:
        self._unclear: UnclearSizeError | None = None

    def given(self, batch: Any) -> Any:
        """The batch of the step, of any size where a trace asked for that."""
        if self._unclear is None or tf.executing_eagerly():
            return batch
        return tf.nest.map_structure(_of_any_size, batch)

    @contextlib.contextmanager
    def retracing(self) -> Iterator[None]:
        """Runs the step; asks for a trace for any size where that may show more.

        Raises:
            TraceAgain: It is to be traced once more.
            UnclearSizeError: That would show no more, or the step needs sizes that are numbers.
        """
        try:
            yield
        except UnclearSizeError as error:
            if self._unclear is not None or tf.executing_eagerly():
                raise
            self._unclear = error
            raise TraceAgain from error
        except (TypeError, ValueError) as error:
            if self._unclear is None:
                raise
            raise self._unclear from error


def _of_any_size(leaf: Any) -> Any:
    if not has_rows(leaf) or not isinstance(leaf, tf.Tensor):
        return leaf
    return tf.raw_ops.PlaceholderWithDefault(input=leaf, shape=[None, *leaf.shape[1:]])
