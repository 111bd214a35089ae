from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.sharding.mesh import Mesh
from tfdist.sharding.shard_groups import check_over, mesh_over

FOUR = ["h1", "h1", "h2", "h2"]


@pytest.mark.parametrize(
    ("over", "hosts", "mesh"),
    [
        ("all", FOUR, Mesh.of(shard=4)),
        ("all", ["h1", "h2", "h1"], Mesh.of(shard=3)),
        ("host", FOUR, Mesh.of(data=2, shard=2)),
        ("host", ["h1", "h1", "h1"], Mesh.of(shard=3)),
        (2, ["h1"] * 4, Mesh.of(data=2, shard=2)),
        ("3", ["h1", "h2"] * 3, Mesh.of(data=2, shard=3)),
        (4, FOUR, Mesh.of(shard=4)),
    ],
)
def test_groups(over: str | int, hosts: list[str], mesh: Mesh) -> None:
    assert mesh_over(over, hosts) == mesh


@pytest.mark.parametrize(
    ("over", "hosts", "message"),
    [
        ("node", FOUR, "--shard-over expects all, host, or how many workers. Received: 'node'"),
        ("0", FOUR, "Received: '0'"),
        (True, FOUR, "Received: True"),
        (-2, FOUR, "Received: -2"),
        (2.5, FOUR, "Received: 2.5"),
        ([2], FOUR, r"Received: [2]"),
        ("1", FOUR, "as many workers as fill one or several groups. Received: --shard-over 1 with 4"),
        (3, FOUR, "Received: --shard-over 3 with 4 workers"),
        (8, FOUR, "Received: --shard-over 8 with 4 workers"),
        ("host", ["h1", "h2"], "each host has one. Give each several"),
        ("host", ["h1", "h2", "h1", "h2"], "to follow one another in the cluster. Received: h1, h2, h1, h2"),
        ("host", ["h1", "h1", "h2"], "expects as many workers on every host"),
    ],
)
def test_no_groups(over: Any, hosts: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        mesh_over(over, hosts)
    assert message in str(raised.value)


def test_groups_and_embeddings_exclude_each_other() -> None:
    check_over("all", 1000)
    check_over("host")
    with pytest.raises(UsageError, match="Received: --shard-over host and --shard-embeddings 1000. Leave one"):
        check_over("host", 1000)
