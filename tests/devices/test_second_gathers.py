"""Tests of which operations of a backward pass read a weight that is put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from tfdist.keras_repairs.sharded_parameters import second_gathers
from tfdist.keras_repairs.sharded_parameters.full_reads import FullRead
from tfdist.keras_repairs.sharded_parameters.second_gathers import gather_again

WEIGHTS = tf.random.stateless_normal((4, 6, 6), (1, 2), dtype=tf.float64)


class Stack:
    """Layers whose weights are put together by an operation that stands for an exchange between workers.

    Args:
        is_swapped: Whether the backward pass is to put them together again.
    """

    def __init__(self, *, is_swapped: bool = True) -> None:
        self._is_swapped = is_swapped
        self.reads: list[FullRead] = []
        self.gathered_again: list[int] = []

    def weight(self, part: tf.Tensor) -> tf.Tensor:
        number = len(self.reads)

        def join(part: tf.Tensor) -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(lambda array: array.copy(), [part], part.dtype), part.shape)

        def join_again(part: tf.Tensor) -> tf.Tensor:
            self.gathered_again.append(number)
            return join(part)

        made = FullRead(join_again)

        @tf.custom_gradient
        def full_of(part: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            def gradient(upstream: tf.Tensor) -> tf.Tensor:
                if self._is_swapped:
                    gather_again([made], made)
                return join(upstream)

            made.shard = part
            return join(part), gradient

        made.full = full_of(part)
        self.reads.append(made)
        return made.full


def product(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return tf.tanh(x @ weight)


def transposed(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return tf.tanh(x @ tf.transpose(tf.identity(weight)))


def penalty(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return x + tf.reduce_sum(weight**2)


def traced(layer: Any, *, is_swapped: bool) -> tuple[list[tf.Tensor], list[int]]:
    """The gradients, and how many operations of the backward pass read each weight as the forward pass has it."""
    readers: list[int] = []

    @tf.function
    def gradients(x: tf.Tensor, parts: tf.Tensor) -> list[tf.Tensor]:
        stack = Stack(is_swapped=is_swapped)
        with tf.GradientTape() as tape:
            tape.watch([x, parts])
            y = x
            for part in tf.unstack(parts):
                y = layer(y, stack.weight(part))
            loss = tf.reduce_sum(y**2)
        forward = len(tf.compat.v1.get_default_graph().get_operations())
        gradient = second_gathers.gradient(tf.GradientTape.gradient)
        found: list[tf.Tensor] = gradient(tape, loss, [x, parts])
        after = {op.name for op in tf.compat.v1.get_default_graph().get_operations()[forward:]}
        for read in stack.reads:
            pending, seen = [read.full], 0
            while pending:
                tensor = pending.pop()
                for op in tensor.consumers():
                    seen += op.name in after
                    if op.name not in after and op.type in ("Identity", "Transpose"):
                        pending.append(op.outputs[0])
            readers.append(seen)
        return found

    return gradients(tf.ones((3, 6), tf.float64), WEIGHTS), readers


@pytest.mark.parametrize("layer", [product, transposed, penalty])
def test_no_weight_is_kept_from_the_forward_pass(layer: Any) -> None:
    plain, kept = traced(layer, is_swapped=False)
    swapped, readers = traced(layer, is_swapped=True)
    assert all(kept) and readers == [0] * len(kept)
    for one, other in zip(plain, swapped, strict=True):
        tf.debugging.assert_equal(one, other)


@pytest.mark.parametrize(
    ("trained", "gathered"), [((0, 1, 2, 3), [3, 2, 1]), ((0,), [3, 2, 1]), ((1, 3), [3, 2]), ((3,), []), ((2, 3), [3])]
)
@pytest.mark.parametrize("are_variables", [True, False])
def test_weights_are_put_together_again_where_a_gradient_flows_through_to_others(
    trained: tuple[int, ...], gathered: list[int], are_variables: bool
) -> None:
    stack, variables = Stack(), [tf.Variable(part) for part in tf.unstack(WEIGHTS)]

    @tf.function
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            parts = [variable.read_value() for variable in variables]
            for part in parts:
                x = product(x, stack.weight(part))
            loss = tf.reduce_sum(x**2)
        sources = variables if are_variables else parts
        gradient = second_gathers.gradient(tf.GradientTape.gradient)
        found: list[tf.Tensor] = gradient(tape, loss, [sources[number] for number in trained])
        return found

    assert all(tf.reduce_any(found != 0) for found in gradients(tf.ones((3, 6), tf.float64)))
    assert stack.gathered_again == gathered


def test_gradients_outside_of_a_known_backward_pass_read_what_is_there() -> None:
    stack = Stack()

    @tf.function
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        return tf.gradients(product(x, stack.weight(WEIGHTS[0])), [x])

    assert gradients(tf.ones((3, 6), tf.float64))[0].shape == (3, 6)
