"""Calls of a tape's `gradient`: what each takes gradients by, and the sums that it puts off where it runs eagerly.

In a graph all workers sum in the order in which the step was traced. Eagerly a tape comes to gradients that do not wait
for each other, such as those of a regularizer and of the loss, by how many operations are before each: that may differ
where a worker has no samples in a batch. So all are summed after that, in the order of what gradients are taken by.
"""

from __future__ import annotations

import contextlib
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


class TapeCall:
    """A call of `tf.GradientTape.gradient`. Gradients by others than its sources, such as frozen weights, need no sum.

    Args:
        sources: Variables of Keras or TensorFlow and tensors, in any structure.
    """

    def __init__(self, sources: Any) -> None:
        # A variable of Keras is no leaf of TensorFlow's where composites are expanded.
        self._handles = [getattr(source, "handle", source) for source in tf.nest.flatten(sources)]
        self._ids = {id(handle) for handle in self._handles}

    def has(self, variable: tf.Variable) -> bool:
        """Returns whether a variable is among them."""
        return id(variable.handle) in self._ids

    def reached_in(self, graph: Any, end: int) -> frozenset[int]:
        """The numbers of a graph's operations up to `end` through which a gradient flows to a source."""
        inner = {id(inner) for outer, inner in getattr(graph, "captures", ()) if id(outer) in self._ids}
        known, found = self._ids | inner, set[int]()
        for op in graph.get_operations():
            if op._id > end:
                break
            is_source = any(id(tensor) in known for tensor in (*op.inputs, *op.outputs))
            if is_source or any(tensor.op._id in found for tensor in op.inputs):
                found.add(op._id)
        return frozenset(found)


class EagerSums(TapeCall):
    """A call that takes gradients eagerly, and puts off their sums."""

    def __init__(self, sources: Any) -> None:
        super().__init__(sources)
        self._sources = sources
        self._sums: dict[int, list[tuple[int, Callable[[], Gradient]]]] = defaultdict(list)

    def put_off(self, variable: tf.Variable, read: int, summed: Callable[[], Gradient]) -> tf.Tensor:
        """Returns what stands in for the gradient by a variable until `taken`.

        Args:
            variable: What the gradient is taken by.
            read: The number of the read through which it flows.
            summed: Sums it over the workers; called by `taken`, on all of them together.
        """
        self._sums[id(variable.handle)].append((read, summed))
        return tf.zeros(variable.shape, variable.dtype)

    def taken(self, gradients: Any) -> Any:
        """The gradients that the tape has returned, with sums in the places of what stood in for them."""
        found = tf.nest.flatten(gradients)
        for place, source in enumerate(tf.nest.flatten(self._sources)):
            sums = self._sums.get(id(getattr(source, "handle", source)))
            if sums and found[place] is not None:
                found[place] = _added([summed() for _, summed in sorted(sums, key=lambda entry: entry[0])])
        return tf.nest.pack_sequence_as(gradients, found)


_call: contextvars.ContextVar[TapeCall | None] = contextvars.ContextVar("tfdist_tape_call", default=None)


def inside(call: TapeCall) -> contextlib.AbstractContextManager[None]:
    """Inside, gradients are taken by this call."""
    return setting(_call, call)


def current_call() -> TapeCall | None:
    """The innermost call, in a graph or eagerly; None where no tape takes gradients, but TensorFlow by itself."""
    return _call.get()


def current_sums() -> EagerSums | None:
    """Those of the innermost call that takes gradients eagerly; None in a graph, and where there is none."""
    call = _call.get()
    return call if isinstance(call, EagerSums) and tf.executing_eagerly() else None


def take_eagerly(gradient: Callable[..., Any], target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns what a tape's `gradient` returns, called eagerly: sums that it comes to are taken once it is over."""
    sums = EagerSums(sources)
    with inside(sums):
        gradients = gradient(target, sources, *args, **kwargs)
    return sums.taken(gradients)


def _added(sums: list[Gradient]) -> Gradient:
    """The sum of gradients of one variable, dense unless all are sparse."""
    if len(sums) == 1:
        return sums[0]
    if all(isinstance(each, tf.IndexedSlices) for each in sums):
        values = tf.concat([each.values for each in sums], 0)
        return tf.IndexedSlices(values, tf.concat([each.indices for each in sums], 0), sums[0].dense_shape)
    return tf.add_n([tf.convert_to_tensor(each) for each in sums])
