"""Workers of one host, as threads of this process: they have real links."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tfdist.net.host_links import HostLinks, LinkEnds
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh

Result = TypeVar("Result")
SECONDS = 30.0
FIRST = 3
"""The index of the first worker of the host."""


def meshes(workers: int) -> list[HostMesh]:
    """The ends of the links of so many workers, which the test closes."""
    indices = [FIRST + rank for rank in range(workers)]
    with HostLinks(indices) as links:
        ends = [[os.dup(fd) for fd in links.ends_of(index).descriptors] for index in indices]
    return [HostMesh(LinkEnds.of(index, indices, each)) for index, each in zip(indices, ends, strict=True)]


def on_each(found: list[HostMesh], work: Callable[[HostMesh], Result]) -> list[Result]:
    """What `work` returns for each worker; the first error where there is one. It takes `SECONDS` at most."""
    with ThreadPoolExecutor(len(found)) as pool:
        futures = [pool.submit(work, mesh) for mesh in found]
        try:
            return [future.result(SECONDS) for future in futures]
        finally:
            for mesh in found:
                mesh.close()
