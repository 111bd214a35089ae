"""Exchanges in shared memory as operations of a graph, or at once outside of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.transport.shared_memory.array_exchange import copy_arrays, gather_arrays, sum_arrays
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.output_buffers import OutputBuffers


class MemoryOperations:
    """Sums and copies of flat tensors of one dtype between the workers of a host.

    All workers trace the same operations in the same order, and TensorFlow runs them in that order, one after another:
    none waits for another one in an exchange that this one has not come to.

    Args:
        mesh: The links between the workers.
    """

    def __init__(self, mesh: HostMesh) -> None:
        self._mesh = mesh
        self._buffers = OutputBuffers()
        self._lock = threading.Lock()
        # TensorFlow orders operations in Python within a function, and not with those in its branches and loops; what
        # has to do with one variable it orders everywhere.
        with tf.init_scope(), tf.device("CPU:0"):
            self._order = tf.Variable(0, trainable=False, dtype=tf.int64, name="tfdist_order_of_exchanges")

    @property
    def workers(self) -> int:
        """Workers of the host."""
        return self._mesh.count

    @property
    def is_first(self) -> bool:
        """Whether this is the first worker of its host."""
        return self._mesh.rank == 0

    def sum(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The sum of each tensor over the workers of the host."""
        return self._call(self._sum, tensors)

    def copy(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The tensors of the first worker of the host; those of the others have the same sizes."""
        copies = self._call(self._copy, tensors)
        return list(tensors) if self.is_first else copies

    def gather(self, tensor: tf.Tensor) -> tf.Tensor:
        """The elements of all workers' tensors, of any sizes, one after another."""
        (gathered,) = self._call(self._gather, [tensor])
        return tf.ensure_shape(gathered, [None])

    def sum_now(self, array: NDArray) -> NDArray:
        """The sum of an array over the workers of the host, outside of functions; it has one shape on all of them."""
        total = np.array(array).reshape(-1)
        with self._lock:
            sum_arrays(self._mesh, [total], [total])
        return total.reshape(array.shape)

    def _call(self, function: Callable[..., list[NDArray]], tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if tf.executing_eagerly():
            return [tf.constant(array) for array in function(*(tensor.numpy() for tensor in tensors))]
        with tf.device("CPU:0"):
            before = self._order.read_value()
            with tf.control_dependencies([before]):
                results = tf.numpy_function(function, tensors, [tensor.dtype for tensor in tensors])
            with tf.control_dependencies(results):
                self._order.assign(before, read_value=False)
        return results

    def _sum(self, *arrays: NDArray) -> list[NDArray]:
        totals = self._buffers_for(arrays)
        with self._lock:
            sum_arrays(self._mesh, arrays, totals)
        return totals

    def _copy(self, *arrays: NDArray) -> list[NDArray]:
        # The first worker's results are not read: TensorFlow takes any.
        copies = [array[:0] for array in arrays] if self.is_first else self._buffers_for(arrays)
        with self._lock:
            copy_arrays(self._mesh, arrays, copies)
        return copies

    def _gather(self, array: NDArray) -> list[NDArray]:
        with self._lock:
            return [np.concatenate(gather_arrays(self._mesh, array))]

    def _buffers_for(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        return [self._buffers.take(array.size, array.dtype) for array in arrays]
