"""Exchanges in shared memory as operations of a graph, or at once outside of one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfdist.runtime.transport.shared_memory.array_exchange import (
    Reduction,
    copy_arrays,
    deal_array,
    gather_arrays,
    reduce_arrays,
)
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.output_buffers import OutputBuffers
from tfdist.runtime.transport.shared_memory.shard_exchange import Bounds, all_gather, reduce_scatter
from tfdist.runtime.transport.shared_memory.uneven_exchange import deal_uneven_array


class MemoryOperations:
    """Sums and copies of flat tensors between the workers of a host.

    All workers trace the same operations in the same order, and TensorFlow runs them in that order, one after another:
    none waits for another one in an exchange that this one has not come to.

    Args:
        rank: This worker's place among them.
        connect: Returns the links between them; called once, by the first exchange.
        beside: Other operations of the same functions: all come in the order in which they are traced, and share the
            memory of their results. None where there are none.
    """

    def __init__(self, rank: int, connect: Callable[[], HostMesh], beside: MemoryOperations | None = None) -> None:
        self._rank = rank
        self._connect = connect
        self._connected: HostMesh | None = None
        self._buffers: OutputBuffers = OutputBuffers() if beside is None else beside._buffers
        self._lock = threading.Lock()
        # TensorFlow orders operations in Python within a function, and not with those in its branches and loops; what
        # has to do with one variable it orders everywhere.
        self._order: tf.Variable = _new_order() if beside is None else beside._order

    @property
    def is_first(self) -> bool:
        """True if this is the first worker of its host."""
        return self._rank == 0

    def close(self) -> None:
        """Hangs up."""
        if self._connected is not None:
            self._connected.close()

    @property
    def _mesh(self) -> HostMesh:
        """The links, for who has the lock. A `cached_property` would wait for those of other operations, too."""
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def reduce(self, tensors: Sequence[tf.Tensor], reduction: Reduction = "sum") -> list[tf.Tensor]:
        """The sum, or another reduction, of each tensor over the workers of the host."""

        def reduced(*arrays: NDArray) -> list[NDArray]:
            totals = self._buffers_for(arrays)
            reduce_arrays(self._mesh, arrays, totals, reduction)
            return totals

        return self._call(reduced, tensors)

    def copy(self, tensors: Sequence[tf.Tensor], root: int = 0) -> list[tf.Tensor]:
        """The tensors of one worker of the host; those of the others have the same sizes."""
        is_root = self._rank == root

        def copied(*arrays: NDArray) -> list[NDArray]:
            # Nobody reads the results of the root: TensorFlow takes any.
            copies = [array[:0] for array in arrays] if is_root else self._buffers_for(arrays)
            copy_arrays(self._mesh, arrays, copies, root)
            return copies

        copies = self._call(copied, tensors)
        return list(tensors) if is_root else copies

    def gather(
        self,
        tensors: Sequence[tf.Tensor],
        around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> list[tf.Tensor]:
        """For each tensor, of any size and dtype, the elements of those of all workers, one after another.

        `around` is entered whenever the operation runs, and left when it ends or fails.
        """

        def gathered(*arrays: NDArray) -> list[NDArray]:
            return gather_arrays(self._mesh, arrays, self._buffers.take)

        return [tf.ensure_shape(whole, [None]) for whole in self._call(gathered, tensors, around)]

    def deal(self, tensor: tf.Tensor) -> tf.Tensor:
        """This worker's part of all workers' tensors, one after another."""

        def dealt(array: NDArray) -> list[NDArray]:
            parts = self._buffers_for([array])
            deal_array(self._mesh, array, *parts)
            return parts

        (parts,) = self._call(dealt, [tensor])
        return tf.ensure_shape(parts, [None])

    def deal_unevenly(self, tensor: tf.Tensor, sizes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """This worker's parts of all workers' tensors, whose sizes may differ, and int64 how large each of them is.

        Args:
            tensor: A part for each worker, one after another.
            sizes: Elements of each part, int64 `[workers]`.
        """

        def dealt(array: NDArray, sizes: NDArray) -> list[NDArray]:
            return list(deal_uneven_array(self._mesh, array, sizes, self._buffers.take))

        parts, came = self._call(dealt, [tensor, sizes])
        return tf.ensure_shape(parts, [None]), tf.ensure_shape(came, sizes.shape)

    def reduce_scatter(self, tensors: Sequence[tf.Tensor], bounds: Sequence[Bounds]) -> list[tf.Tensor]:
        """This worker's shard of the sum of each tensor over the workers of the host; `bounds` say how each is cut."""
        sizes = [bound[self._rank + 1] - bound[self._rank] for bound in bounds]

        def summed(*arrays: NDArray) -> list[NDArray]:
            totals = [self._buffers.take(size, array.dtype) for size, array in zip(sizes, arrays, strict=True)]
            reduce_scatter(self._mesh, arrays, bounds, totals)
            return totals

        return [tf.ensure_shape(shard, [size]) for shard, size in zip(self._call(summed, tensors), sizes, strict=True)]

    def all_gather(self, shards: Sequence[tf.Tensor], bounds: Sequence[Bounds]) -> list[tf.Tensor]:
        """The tensors of which each worker of the host has one shard; `bounds` say how each is cut."""

        def gathered(*arrays: NDArray) -> list[NDArray]:
            full = [self._buffers.take(bound[-1], array.dtype) for bound, array in zip(bounds, arrays, strict=True)]
            all_gather(self._mesh, arrays, bounds, full)
            return full

        full = self._call(gathered, shards)
        return [tf.ensure_shape(each, [bound[-1]]) for each, bound in zip(full, bounds, strict=True)]

    def all_gather_now(self, shard: NDArray, bounds: Bounds, full: NDArray) -> None:
        """Fills an array with the shards of all workers, outside of functions; `bounds` say how it is cut.

        The array is the caller's: what is gathered once, to be saved, does not come from memory that is kept.
        """
        with self._lock:
            all_gather(self._mesh, [shard], [bounds], [full])

    def sum_now(self, array: NDArray) -> NDArray:
        """The sum of an array over the workers of the host, outside of functions; it has one shape on all of them."""
        total = np.array(array).reshape(-1)
        with self._lock:
            reduce_arrays(self._mesh, [total], [total])
        return total.reshape(array.shape)

    def _call(
        self,
        function: Callable[..., list[NDArray]],
        tensors: Sequence[tf.Tensor],
        around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> list[tf.Tensor]:
        def exchanged(*arrays: NDArray) -> list[NDArray]:
            with around(), self._lock:
                return function(*arrays)

        if tf.executing_eagerly():
            return [tf.constant(array) for array in exchanged(*(tensor.numpy() for tensor in tensors))]
        with tf.device("CPU:0"):
            before = self._order.read_value()
            with tf.control_dependencies([before]):
                dtypes = [tensor.dtype for tensor in tensors]
                results = tf.numpy_function(exchanged, tensors, dtypes, name="tfdist_exchange")
            with tf.control_dependencies(results):
                self._order.assign(before, read_value=False)
        return results

    def _buffers_for(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        return [self._buffers.take(array.size, array.dtype) for array in arrays]


def _new_order() -> tf.Variable:
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(0, trainable=False, dtype=tf.int64, name="tfdist_order_of_exchanges")
