"""Gradients of functions that XLA compiles and that have loops, such as recurrent layers, or branches.

The gradient of a loop needs what its steps have computed, and that of a branch what was computed in it. TensorFlow
passes the one on in lists and the other as optional values, which cannot leave a function that XLA has compiled. So the
compiled backward pass runs the forward pass once more (Chen et al. 2016, "Training deep nets with sublinear memory
cost", with the whole call as the one segment).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

_LOOPS_AND_BRANCHES = {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


def call(function: Any, *args: Any) -> Any:
    """Calls a `tf.function` that XLA compiles; its result has a gradient by its tensors even with loops and branches.

    Args:
        function: It reads no variable, and returns a structure of tensors and Nones.
        args: Structures of tensors and Nones.
    """
    traced = function.get_concrete_function(*args)
    if not _has_loops_or_branches(traced.graph.as_graph_def()):
        return function(*args)
    leaves = tf.nest.flatten(args)
    places = [place for place, leaf in enumerate(leaves) if leaf is not None]

    def outputs_of(*tensors: tf.Tensor) -> list[tf.Tensor]:
        filled = dict(zip(places, tensors, strict=True))
        given = tf.nest.pack_sequence_as(args, [filled.get(place) for place in range(len(leaves))])
        return [output for output in tf.nest.flatten(function(*given)) if output is not None]

    outputs = iter(_recomputing(outputs_of)(*(leaves[place] for place in places)))
    described = traced.structured_outputs
    made = [None if spec is None else next(outputs) for spec in tf.nest.flatten(described)]
    return tf.nest.pack_sequence_as(described, made)


def _has_loops_or_branches(graph: Any) -> bool:
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return any(node.op in _LOOPS_AND_BRANCHES for body in bodies for node in body)


def _recomputing(compute: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
    """`compute`, with a gradient that is compiled as a whole.

    Gradients of rows of a table stay sparse: optimizers square the gradient of each occurrence of a row separately.
    """

    @tf.function(jit_compile=True, autograph=False)
    def backward(tensors: Sequence[tf.Tensor], upstream: Sequence[tf.Tensor]) -> list[Gradient]:
        watched = _floating(tensors)
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = _floating(compute(*tensors))
        return list(tape.gradient(outputs, watched, upstream, tf.UnconnectedGradients.ZERO))

    @tf.custom_gradient
    def forward(*tensors: tf.Tensor) -> tuple[list[tf.Tensor], Callable[..., list[Gradient | None]]]:
        outputs = compute(*tensors)

        def gradient(*upstream: tf.Tensor) -> list[Gradient | None]:
            given = [value for value, output in zip(upstream, outputs, strict=True) if output.dtype.is_floating]
            found = iter(backward(tensors, given))
            return [next(found) if tensor.dtype.is_floating else None for tensor in tensors]

        return outputs, gradient

    return forward


def _floating(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tensor for tensor in tensors if tensor.dtype.is_floating]
