from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

from tests.helpers.ports import free_ports
from tfdist.ray.job.driving import dead_nodes


def node(name: str, port: int, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}


def test_a_node_is_dead_that_ray_has_missed_or_that_refuses_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as daemon:
        port = daemon.getsockname()[1]
        (closed,) = free_ports(1)
        nodes = [node("there", port), node("refuses", closed), node("missed", port, alive=False), node("other", closed)]
        ray = SimpleNamespace(nodes=lambda: nodes)
        assert dead_nodes(ray, {"there", "refuses", "missed", "forgotten"}) == {"refuses", "missed", "forgotten"}
        assert dead_nodes(ray, {"missed"}) == {"missed"}
