"""Workers of one host, as threads of this process: they have real links."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tfdist.net.host_links import REGION_BYTES, HostLinks, LinkEnds
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh

Result = TypeVar("Result")
SECONDS = 30.0
FIRST = 3
"""The index of the first worker of the host."""


def ends_of_links(workers: int, region_bytes: int = REGION_BYTES) -> list[LinkEnds]:
    """The ends of the links of so many workers, which belong to the test."""
    indices = range(FIRST, FIRST + workers)
    with HostLinks(indices, region_bytes) as links:
        return [links.taken_by(index) for index in indices]


def meshes(workers: int, region_bytes: int = REGION_BYTES) -> list[HostMesh]:
    """The meshes of so many workers, which the test closes."""
    return [HostMesh(ends) for ends in ends_of_links(workers, region_bytes)]


def on_each(found: list[HostMesh], work: Callable[[HostMesh], Result]) -> list[Result]:
    """What `work` returns for each worker; the first error where there is one. It takes `SECONDS` at most."""
    with ThreadPoolExecutor(len(found)) as pool:
        futures = [pool.submit(work, mesh) for mesh in found]
        try:
            return [future.result(SECONDS) for future in futures]
        finally:
            for mesh in found:
                mesh.close()
