"""What a backward pass takes gradients by: weights that it does not, such as frozen ones, need no sum."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class GradientSources:
    """The sources that `tf.GradientTape.gradient` was given.

    Args:
        sources: Variables of Keras or TensorFlow and tensors, in any structure.
    """

    def __init__(self, sources: Any) -> None:
        # A variable of Keras is no leaf of TensorFlow's where composites are expanded.
        self._handles = [getattr(source, "handle", source) for source in tf.nest.flatten(sources)]
        self._ids = {id(handle) for handle in self._handles}

    def has(self, variable: tf.Variable) -> bool:
        """Whether a variable is among them."""
        return id(variable.handle) in self._ids

    def reached(self, graph: Any, end: int) -> frozenset[int]:
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
