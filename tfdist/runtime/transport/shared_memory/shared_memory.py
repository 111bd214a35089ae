"""Memory that the workers of one host share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tfdist.net.host_links import LinkEnds
from tfdist.runtime.transport.shared_memory.group_meshes import GroupMeshes
from tfdist.runtime.transport.shared_memory.group_operations import GroupOperations
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh
from tfdist.runtime.transport.shared_memory.link_mailbox import LinkMailbox
from tfdist.runtime.transport.shared_memory.memory_operations import MemoryOperations


@dataclass(frozen=True)
class SharedMemory:
    """One worker's exchanges with those that it shares memory with. Those over one set of links come in one order.

    Attributes:
        of_functions: Those of all workers in functions, and what tfdist itself exchanges between steps.
        of_calls: Those that a script calls outside of functions, some of them in other threads.
        of_groups: Those of some of the workers, in functions and outside.
    """

    of_functions: MemoryOperations
    of_calls: MemoryOperations
    of_groups: GroupOperations

    @classmethod
    def over(cls, links: Sequence[LinkEnds]) -> Self:
        """The exchanges over the three sets of links that a launcher makes, which belong to them from now on."""
        of_functions, of_calls, handing = links
        functions = operations_over(of_functions)
        meshes = GroupMeshes(LinkMailbox(handing))
        return cls(functions, operations_over(of_calls), GroupOperations(meshes, functions))

    def close(self) -> None:
        """Hangs up."""
        for each in (self.of_functions, self.of_calls, self.of_groups):
            each.close()


def operations_over(ends: LinkEnds) -> MemoryOperations:
    """The exchanges over one set of links."""
    mesh = HostMesh(ends)
    return MemoryOperations(mesh.rank, lambda: mesh)
