from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tfdist.errors import UsageError
from tfdist.sharding.mesh import Axis, Mesh, ShardGroup

FLAT = ((0, 1, 2),)
ALONE = ((0,), (1,), (2,))


@pytest.mark.parametrize(
    ("mesh", "data", "shard"),
    [
        (Mesh.of(shard=3), ALONE, FLAT),
        (Mesh.of(data=3), FLAT, ALONE),
        (Mesh.of(), ((0,),), ((0,),)),
        (Mesh(()), ((0,),), ((0,),)),  # an axis that is absent has one worker along it
        (Mesh((Axis("shard", 3),)), ALONE, FLAT),
        # Workers of a host follow one another, and share parts; their counterparts are a host apart.
        (Mesh.within_hosts([3, 3]), ((0, 3), (1, 4), (2, 5)), ((0, 1, 2), (3, 4, 5))),
        (Mesh.within_hosts([2, 2, 2]), ((0, 2, 4), (1, 3, 5)), ((0, 1), (2, 3), (4, 5))),
        (Mesh.within_hosts([1, 1]), ((0, 1),), ((0,), (1,))),
    ],
)
def test_groups(mesh: Mesh, data: tuple[tuple[int, ...], ...], shard: tuple[tuple[int, ...], ...]) -> None:
    assert (mesh.groups("data"), mesh.groups("shard")) == (data, shard)
    assert mesh.workers == len(data) * len(data[0]) == len(shard) * len(shard[0])
    for group in data:
        assert [mesh.place("data", worker) for worker in group] == list(range(mesh.size("data")))
        assert {mesh.group("data", worker) for worker in group} == {group}
    for group in shard:
        assert [mesh.place("shard", worker) for worker in group] == list(range(mesh.size("shard")))
        assert {mesh.group("shard", worker) for worker in group} == {group}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Mesh.of(shard=0), "The axis shard expects at least 1 worker along it. Received: 0"),
        (lambda: Axis("model", 2), "An axis is one of data, shard. Received: 'model'"),
        (lambda: Mesh((Axis("shard", 2), Axis("data", 2))), "each once and in this order. Received: shard, data"),
        (lambda: Mesh((Axis("data", 2), Axis("data", 2))), "each once and in this order. Received: data, data"),
        (lambda: Mesh.within_hosts([2, 3]), "as many workers on every host, .* Received: 2, 3"),
        (lambda: Mesh.within_hosts([]), "Received: no hosts"),
        (lambda: Mesh.of(data=2).group("data", 2), "has the workers 0 to 1. Received: worker 2"),
        (lambda: Mesh.of(data=2).place("shard", -1), "Received: worker -1"),
    ],
)
def test_what_is_no_mesh(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make()


def test_in_words() -> None:
    assert [str(mesh) for mesh in (Mesh.of(shard=4), Mesh.of(data=2, shard=4), Mesh.of())] == [
        "shard 4",
        "data 2 x shard 4",
        "one worker",
    ]


def test_those_who_share_a_tensor() -> None:
    mesh = Mesh.of(data=2, shard=3)
    assert mesh.shard_group(["shard"], 4) == ShardGroup((3, 4, 5), 1, (1, 4), (0, 1, 2))
    assert mesh.shard_group(["data"], 4) == ShardGroup((1, 4), 1, (3, 4, 5), (0, 3))
    assert mesh.shard_group(["data", "shard"], 4) == ShardGroup(tuple(range(6)), 4, (4,), tuple(range(6)))
