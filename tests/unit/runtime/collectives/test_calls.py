"""Gradients of collectives, of several workers that are played in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.runtime.collectives.played_workers import MirrorEngine, play
from tfdist.errors import UnsupportedError, UsageError
from tfdist.runtime.collectives.calls import Call
from tfdist.runtime.collectives.communicator import Communicator

GRADIENTS: list[tuple[Call, Callable[[np.ndarray, int], np.ndarray]]] = [
    # The gradient of a worker's input, from the weights of all workers' results in their losses, [workers, 4].
    (Call("all_reduce", "sum"), lambda weights, own: weights.sum(0)),
    (Call("all_reduce", "mean"), lambda weights, own: weights.mean(0)),
    (Call("all_to_all"), lambda weights, own: weights.reshape(2, 2, 2)[:, own].reshape(-1)),
    (Call("broadcast", root=1), lambda weights, own: weights.sum(0) * (own == 1)),
]


@pytest.mark.parametrize(("call", "wanted"), GRADIENTS, ids=str)
@pytest.mark.parametrize("async_op", [False, True])
def test_gradients_are_those_of_the_sum_over_all_losses(
    call: Call, wanted: Callable[[np.ndarray, int], np.ndarray], async_op: bool
) -> None:
    weights = np.arange(8.0).reshape(2, 4)

    def act(own: Communicator) -> np.ndarray:
        # A mean has no integers beside it.
        given = tf.fill([4], float(own.worker + 1)), tf.zeros([2], tf.float64 if call.op == "mean" else tf.int32)
        with tf.GradientTape() as tape:
            tape.watch(given)
            found = own.run(call, given, async_op=async_op)
            result, _ = found.wait() if async_op else found
            loss = tf.reduce_sum(result * tf.constant(weights[own.worker], tf.float32))
        return tape.gradient(loss, given[0]).numpy()

    for worker, gradient in enumerate(play(2, act)):
        np.testing.assert_allclose(gradient, wanted(weights, worker))


@pytest.mark.parametrize("async_op", [False, True])
def test_a_worker_that_gives_nothing_takes_part_in_the_gradient(async_op: bool) -> None:
    def act(own: Communicator) -> Any:
        variable = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            found = own.run(Call("broadcast", root=0), variable if own.worker == 0 else None, async_op=async_op)
            loss = tf.reduce_sum(found.wait() if async_op else found) * (own.worker + 1)
        gradient = tape.gradient(loss, variable)
        return gradient if gradient is None else gradient.numpy().tolist()

    assert play(3, act) == [[6, 6], None, None]


@pytest.mark.parametrize(
    "call", [*(call for call, _ in GRADIENTS), Call("all_gather"), Call("reduce_scatter", "sum")], ids=str
)
def test_a_worker_whose_input_is_a_constant_takes_part_in_the_gradient(call: Call) -> None:
    """Else one whose input is a variable would wait for it."""

    def act(own: Communicator) -> Any:
        variable = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(own.run(call, variable if own.worker else tf.ones([2])))
        return tape.gradient(loss, variable)

    constant, watched = play(2, act)
    assert constant is None
    assert np.all(watched.numpy() > 0)


@pytest.mark.parametrize("is_outside", [False, True])
def test_it_does_so_in_a_function(is_outside: bool) -> None:
    """Whether the tape is in the function or around it."""
    engine = MirrorEngine()
    own = Communicator(1, 2, engine)

    @tf.function
    def loss() -> tf.Tensor:
        return tf.reduce_sum(own.run(Call("broadcast", root=0), tf.TensorSpec([2])))

    def gradient() -> None:
        with tf.GradientTape() as tape:
            found = loss()
        assert tape.gradient(found, tf.constant(1.0)) is None

    (gradient if is_outside else tf.function(gradient))()
    assert engine.asked.count("all_reduce") == 1


@pytest.mark.parametrize("is_outside", [False, True])
def test_a_loop_in_a_function_has_a_gradient(is_outside: bool) -> None:
    own = Communicator(0, 2, MirrorEngine())
    variable = tf.Variable([1.0, 2.0])

    @tf.function
    def loss() -> tf.Tensor:
        value = tf.convert_to_tensor(variable)
        for _ in tf.range(3):
            value = own.run(Call("all_reduce", "sum"), value)
        return tf.reduce_sum(value)

    def gradient() -> tf.Tensor:
        with tf.GradientTape() as tape:
            found = loss()
        return tape.gradient(found, variable)

    assert (gradient if is_outside else tf.function(gradient))().numpy().tolist() == [8, 8]


def test_a_gradient_that_meets_another_call_is_named() -> None:
    def act(own: Communicator) -> str:
        given = tf.ones([2])
        with tf.GradientTape() as tape:
            tape.watch(given)
            found = own.run(Call("all_reduce", "sum"), given)
        with pytest.raises(UsageError) as told:
            # One of them takes the gradient, the other goes on.
            tape.gradient(found, given) if own.worker else own.run(Call("all_reduce", "sum"), given)
        return str(told.value)

    for said in play(2, act):
        assert "all_reduce(sum) on worker 0; all_reduce(sum) for the gradient of all_reduce(sum) on worker 1" in said


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_gradients_of_what_is_gathered_and_scattered(op: str) -> None:
    """And their gradients in turn: of the square of a gathered value, [2, 2], and of a part of a reduction."""

    def act(own: Communicator) -> list[Any]:
        given = tf.constant([1.0, 2.0]) + own.worker
        with tf.GradientTape(persistent=True) as twice:
            twice.watch(given)
            with tf.GradientTape() as tape:
                tape.watch(given)
                loss = tf.reduce_sum(own.run(Call("all_gather"), given) ** 2) * (own.worker + 1)
            first = tape.gradient(loss, given)
            total = tf.reduce_sum(first)
        second = twice.gradient(total, given)
        with tf.GradientTape() as tape:
            tape.watch(given)
            part = own.run(Call("reduce_scatter", op), given)
            loss = part[0] * (own.worker + 3)
        return [first.numpy().tolist(), second.numpy().tolist(), tape.gradient(loss, given).numpy().tolist()]

    parts = [3.0, 4.0] if op == "sum" else [1.5, 2.0]
    assert play(2, act) == [[[6, 12], [6, 6], parts], [[12, 18], [6, 6], parts]]


@pytest.mark.parametrize(
    "call", [Call("all_reduce", "max"), Call("reduce", "sum", 0), Call("scatter", root=0)], ids=str
)
def test_what_has_no_gradient_says_so(call: Call) -> None:
    def act(own: Communicator) -> None:
        given = tf.ones([2])
        with tf.GradientTape() as tape:
            tape.watch(given)
            found = own.run(call, given)
        if found is not None:
            with pytest.raises(UnsupportedError, match=r"There is no gradient of .*tf.stop_gradient"):
                tape.gradient(found, given)

    play(2, act)
