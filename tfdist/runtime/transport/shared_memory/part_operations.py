"""Exchanges between some of the workers of a host, or from one of them to another."""

from __future__ import annotations

import functools
import threading

import tensorflow as tf

from tfdist.net.host_links import REGION_BYTES, SMALL_REGION_BYTES
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations
from tfdist.runtime.transport.shared_memory.part_meshes import PartMeshes


class PartOperations:
    """The operations of each part of the workers.

    Nothing waits for other workers before the first exchange of a part runs: a function is traced at different times on
    different workers. That exchange makes the part's links.

    Args:
        meshes: Makes meshes of these workers.
        order: That of operations in functions, of parts and of all workers (`MemoryOperations.order`).
    """

    def __init__(self, meshes: PartMeshes, order: tf.Variable) -> None:
        self._meshes = meshes
        self._order = order
        self._lock = threading.Lock()
        self._made: dict[str, MemoryOperations] = {}

    def of(self, part: str, workers: tuple[int, ...], place: int, *, is_small: bool = False) -> MemoryOperations:
        """The operations of a part, whose exchanges come in one order on all its workers.

        Args:
            part: A name for the workers and their use of the operations, the same on all of them.
            workers: Their indices, ascending.
            place: This worker's place among them.
            is_small: Whether they take little memory, in smaller frames.
        """
        with self._lock:
            if part not in self._made:
                size = SMALL_REGION_BYTES if is_small else REGION_BYTES
                mesh = functools.partial(self._meshes.make, part, workers, size)
                self._made[part] = MemoryOperations(place, mesh, self._order)
            return self._made[part]
