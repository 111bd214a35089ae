"""Sums of gradients that a tape takes eagerly, put off until it has taken all of them.

In a graph all workers sum in the order in which the step was traced. Eagerly a tape comes to gradients that do not wait
for each other, such as those of a regularizer and of the loss, by how many operations are before each: that may differ
where a worker has no samples in a batch. So all are summed after that, in the order of what gradients are taken by.
"""

from __future__ import annotations

import contextvars
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from tfdist.keras_repairs.base.context_variables import setting

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices

_numbers = itertools.count()


def next_read() -> int:
    """The number of a read of a weight: on all workers the reads of one weight have them in one order."""
    return next(_numbers)


class EagerSums:
    """The sums that one call of `tf.GradientTape.gradient` puts off."""

    def __init__(self) -> None:
        self._sums: dict[int, list[tuple[int, Callable[[], Gradient]]]] = defaultdict(list)

    def put_off(self, variable: tf.Variable, read: int, summed: Callable[[], Gradient]) -> tf.Tensor:
        """What stands in for the gradient by a variable until `taken`.

        Args:
            variable: What the gradient is taken by.
            read: The number of the read through which it flows.
            summed: Sums it over the workers; called by `taken`, on all of them together.
        """
        self._sums[id(variable.handle)].append((read, summed))
        return tf.zeros(variable.shape, variable.dtype)

    def taken(self, sources: Any, gradients: Any) -> Any:
        """The gradients that the tape has returned, with sums in the places of what stood in for them."""
        found = tf.nest.flatten(gradients)
        for place, source in enumerate(tf.nest.flatten(sources)):
            sums = self._sums.get(id(getattr(source, "handle", source)))
            if sums and found[place] is not None:
                found[place] = _added([summed() for _, summed in sorted(sums, key=lambda entry: entry[0])])
        return tf.nest.pack_sequence_as(gradients, found)


_now: contextvars.ContextVar[EagerSums | None] = contextvars.ContextVar("tfdist_eager_sums", default=None)


def current_sums() -> EagerSums | None:
    """Those of the innermost call that takes gradients eagerly; None in a graph, and where there is none."""
    return _now.get() if tf.executing_eagerly() else None


def take_eagerly(gradient: Callable[..., Any], target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """What a tape's `gradient` returns, called eagerly: sums that it comes to are taken once it is over."""
    sums = EagerSums()
    with setting(_now, sums):
        gradients = gradient(target, sources, *args, **kwargs)
    return sums.taken(sources, gradients)


def _added(parts: list[Gradient]) -> Gradient:
    """The sum of gradients of one variable, dense unless all are sparse."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, tf.IndexedSlices) for part in parts):
        values = tf.concat([part.values for part in parts], 0)
        return tf.IndexedSlices(values, tf.concat([part.indices for part in parts], 0), parts[0].dense_shape)
    return tf.add_n([tf.convert_to_tensor(part) for part in parts])
