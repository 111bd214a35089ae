"""Sums in functions: what else reads a tensor that was summed reads what it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from tests.unit.runtime.transport.shared_memory.linked_threads import meshes, on_each
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations

WORKERS = 2
SIZE = 300_000
"""Elements: of several frames."""

Sum = Callable[[tf.Tensor], tf.Tensor]


def _values(worker: int, dtype: tf.DType = tf.float32) -> tf.Tensor:
    return tf.cast((np.arange(SIZE) * 7 + worker * 3) % 5, dtype)


def _on_workers(step: Callable[[int, Sum], list[tf.Tensor]]) -> list[list[NDArray]]:
    """What a function of a worker's index and of a sum over the workers returns on each, the second time it runs."""

    def run(mesh: HostMesh) -> list[NDArray]:
        operations = MemoryOperations(mesh.rank, lambda: mesh)
        function = tf.function(lambda: step(mesh.rank, lambda tensor: operations.reduce([tensor])[0]))
        function()
        return [tensor.numpy() for tensor in function()]

    return on_each(meshes(WORKERS), run)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32, tf.float16, tf.bfloat16, tf.int64, tf.int32])
def test_a_tensor_that_is_read_again_is_what_it_was(dtype: tf.DType) -> None:
    def step(worker: int, total: Sum) -> list[tf.Tensor]:
        own = _values(worker, dtype) + tf.cast(variables[worker], dtype)
        first, second = total(own), total(own)
        return [own + tf.cast(variables[worker], dtype), first, second, total(first)]

    variables = [tf.Variable(0) for _ in range(WORKERS)]
    summed = sum(_values(worker, dtype).numpy() for worker in range(WORKERS))
    for worker, (own, first, second, of_both) in enumerate(_on_workers(step)):
        np.testing.assert_array_equal(own, _values(worker, dtype))
        np.testing.assert_array_equal(first, summed)
        np.testing.assert_array_equal(second, summed)
        np.testing.assert_array_equal(of_both, WORKERS * summed)


def test_variables_constants_and_arguments_stay_what_they_are() -> None:
    variables = [tf.Variable(_values(worker)) for worker in range(WORKERS)]
    captured = [_values(worker) for worker in range(WORKERS)]

    def step(worker: int, total: Sum) -> list[tf.Tensor]:
        return [total(variables[worker]), total(captured[worker]), total(tf.ones([SIZE]))]

    summed = sum(_values(worker).numpy() for worker in range(WORKERS))
    for worker, totals in enumerate(_on_workers(step)):
        for total, wanted in zip(totals, (summed, summed, np.full(SIZE, WORKERS)), strict=True):
            np.testing.assert_array_equal(total, wanted)
        np.testing.assert_array_equal(variables[worker], _values(worker))
        np.testing.assert_array_equal(captured[worker], _values(worker))


@pytest.mark.parametrize("size", [7, SIZE])
def test_one_tensor_twice_in_a_sum(size: int) -> None:
    """Two layers on one input may have the same gradient, which TensorFlow then computes once."""

    def run(mesh: HostMesh) -> list[NDArray]:
        operations = MemoryOperations(mesh.rank, lambda: mesh)

        @tf.function
        def step() -> list[tf.Tensor]:
            own, same = (tf.cast(variables[mesh.rank], tf.float32) + _values(mesh.rank)[:size] for _ in range(2))
            return operations.reduce([own, same, own, tf.ones([size]), tf.ones([size])])

        step()
        return [tensor.numpy() for tensor in step()]

    variables = [tf.Variable(0) for _ in range(WORKERS)]
    summed = sum(_values(worker).numpy()[:size] for worker in range(WORKERS))
    for totals in on_each(meshes(WORKERS), run):
        for total, wanted in zip(totals, [summed] * 3 + [np.full(size, WORKERS)] * 2, strict=True):
            np.testing.assert_array_equal(total, wanted)
