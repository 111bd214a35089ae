"""Exchanges between some of the workers of a host, or from one of them to another."""

from __future__ import annotations

import functools
import threading

from tfdist.net.host_links import GROUP_REGION_BYTES, PAIR_REGION_BYTES
from tfdist.runtime.transport.shared_memory.group_meshes import GroupMeshes
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations


class GroupOperations:
    """The operations of each group of the workers.

    Nothing waits for other workers before the first exchange of a group runs: a function is traced at different times
    on different workers. That exchange makes the group's links.

    Args:
        meshes: Makes meshes of these workers.
        of_all: Those of all workers in functions.
    """

    def __init__(self, meshes: GroupMeshes, of_all: MemoryOperations) -> None:
        self._meshes = meshes
        self._of_all = of_all
        self._lock = threading.Lock()
        self._made: dict[str, MemoryOperations] = {}

    def close(self) -> None:
        """Hangs up."""
        self._meshes.close()

    def of(self, group: str, workers: tuple[int, ...], place: int, *, is_pair: bool) -> MemoryOperations:
        """The operations of a group, whose exchanges come in one order on all its workers.

        Args:
            group: A name for the workers and their use of the operations, the same on all of them.
            workers: Their indices, ascending.
            place: This worker's place among them.
            is_pair: Whether one of two workers sends to the other; this takes less memory.
        """
        with self._lock:
            if group not in self._made:
                size = PAIR_REGION_BYTES if is_pair else GROUP_REGION_BYTES
                mesh = functools.partial(self._meshes.make, group, workers, size)
                self._made[group] = MemoryOperations(place, mesh, self._of_all)
            return self._made[group]
