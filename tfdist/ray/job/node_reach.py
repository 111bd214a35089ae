"""Which nodes of a Ray cluster are there: as Ray says, and as their daemons take connections or not."""

from __future__ import annotations

import socket
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_CONNECT_SECONDS = 3.0
_AT_ONCE = 32


def dead_nodes(ray: Any, suspects: Collection[str]) -> set[str]:
    """Those of some nodes that are dead or out of reach.

    Ray takes seconds to find that a node is dead, and longer for one that is cut off. Its daemon (raylet), to which
    drivers connect anyway, refuses connections at once.

    Args:
        ray: The library.
        suspects: The ids of nodes on which something was lost.
    """
    known = {node["NodeID"]: node for node in ray.nodes() if node["NodeID"] in suspects}
    alive = [node for node in known.values() if node["Alive"]]
    if not alive:
        return set(suspects)
    with ThreadPoolExecutor(min(_AT_ONCE, len(alive))) as pool:
        reached = pool.map(_takes_connections, alive)
        there = {node["NodeID"] for node, is_reached in zip(alive, reached, strict=True) if is_reached}
    return set(suspects) - there


def _takes_connections(node: dict[str, Any]) -> bool:
    try:
        with socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), _CONNECT_SECONDS):
            return True
    except OSError:
        return False
