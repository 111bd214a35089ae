"""Mesh: the ordered workers of a job along named axes, and the groups in which they share work.

Workers are numbered as in the cluster. The last axis runs fastest: its groups are neighbours in that order, which the
workers of one host are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tfdist.errors import UsageError

AxisName = Literal["data", "shard"]
"""An axis, by what the workers along it have: samples of their own (`data`), or shards of one model (`shard`).

A step's samples are shared out over all workers of both. From the outside in: a later axis takes its place here.
"""


@dataclass(frozen=True)
class Axis:
    """An axis of a mesh.

    Attributes:
        name: What it shares out.
        size: Workers along it.

    Raises:
        UsageError: There is no such axis, or nobody along it.
    """

    name: AxisName
    size: int

    def __post_init__(self) -> None:
        if self.name not in get_args(AxisName):
            raise UsageError(f"An axis is one of {', '.join(get_args(AxisName))}. Received: {self.name!r}")
        if self.size < 1:
            raise UsageError(f"The axis {self.name} expects at least 1 worker along it. Received: {self.size}")


@dataclass(frozen=True)
class ShardGroup:
    """The workers that share a tensor with one of them.

    Attributes:
        workers: Those of its group, ascending: each has the shard of its place among them.
        share: Its own place.
        alike: Those that have the same shard, one of each group.
        first: The group of the first worker, which speaks for all where one is enough.
    """

    workers: tuple[int, ...]
    share: int
    alike: tuple[int, ...]
    first: tuple[int, ...]


@dataclass(frozen=True)
class Mesh:
    """The workers of a job along axes, from the outside in.

    Attributes:
        axes: Each at most once, in the order of `AxisName`; one that is absent has size 1.

    Raises:
        UsageError: An axis is there twice, or they are in another order.
    """

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        order = get_args(AxisName)
        places = [order.index(axis.name) for axis in self.axes]
        if places != sorted(set(places)):
            raise UsageError(
                f"The axes of a mesh are some of {', '.join(order)}, each once and in this order. Received: "
                f"{', '.join(axis.name for axis in self.axes)}"
            )

    @classmethod
    def of(cls, *, data: int = 1, shard: int = 1) -> Mesh:
        """The mesh with axes of these sizes."""
        return cls((Axis("data", data), Axis("shard", shard)))

    @classmethod
    def within_hosts(cls, workers: Sequence[int]) -> Mesh:
        """Hybrid sharding: every host holds the whole model, in shards; between hosts there is data parallelism alone.

        Args:
            workers: How many workers each host has; those of a host follow one another in the cluster.

        Raises:
            UsageError: The hosts have different numbers of workers.
        """
        if len(set(workers)) != 1:
            raise UsageError(
                "Sharding within each host expects as many workers on every host, so that each has a counterpart on "
                f"the others. Received: {', '.join(map(str, workers)) or 'no hosts'}"
            )
        return cls.of(data=len(workers), shard=workers[0])

    @property
    def workers(self) -> int:
        """The number of workers it arranges."""
        return math.prod(axis.size for axis in self.axes)

    def size(self, name: AxisName) -> int:
        """Workers along an axis."""
        return next((axis.size for axis in self.axes if axis.name == name), 1)

    def place(self, name: AxisName, worker: int) -> int:
        """Returns where along an axis a worker stands, from 0."""
        self._check(worker)
        return worker // self._stride(name) % self.size(name)

    def group(self, name: AxisName, worker: int) -> tuple[int, ...]:
        """The workers along an axis through `worker`, in their order, itself among them."""
        stride = self._stride(name)
        first = worker - self.place(name, worker) * stride
        return tuple(range(first, first + stride * self.size(name), stride))

    def groups(self, name: AxisName) -> tuple[tuple[int, ...], ...]:
        """All groups along an axis: each worker is in one."""
        firsts = (worker for worker in range(self.workers) if self.place(name, worker) == 0)
        return tuple(self.group(name, worker) for worker in firsts)

    def shard_group(self, names: Sequence[AxisName], worker: int) -> ShardGroup:
        """The workers that share a tensor with `worker` which is cut along one or both axes."""
        if len(names) > 1:
            everyone = tuple(range(self.workers))
            return ShardGroup(everyone, worker, (worker,), everyone)
        (name,) = names
        (other,) = set(get_args(AxisName)) - {name}
        return ShardGroup(
            self.group(name, worker), self.place(name, worker), self.group(other, worker), self.group(name, 0)
        )

    def __str__(self) -> str:
        """`data 2 x shard 4`, without axes that nobody shares."""
        return " x ".join(f"{axis.name} {axis.size}" for axis in self.axes if axis.size > 1) or "one worker"

    def _stride(self, name: AxisName) -> int:
        """Returns how far neighbours along an axis are apart in the order of the workers."""
        order = get_args(AxisName)
        return math.prod(axis.size for axis in self.axes if order.index(axis.name) > order.index(name))

    def _check(self, worker: int) -> None:
        if not 0 <= worker < self.workers:
            raise UsageError(f"This mesh has the workers 0 to {self.workers - 1}. Received: worker {worker}")
