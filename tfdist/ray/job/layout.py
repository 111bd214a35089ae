"""Layout of a job on nodes: which workers each runs, with the workers of a node next to each other."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfdist.cluster.cluster_spec import Address, Cluster


@dataclass(frozen=True)
class Node:
    """A machine of the Ray cluster.

    Attributes:
        id: What Ray calls it.
        address: Its IP address.
        name: Its host name.
    """

    id: str
    address: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


@dataclass(frozen=True)
class NodeWorkers:
    """The workers of one machine.

    Attributes:
        node: The machine; where several nodes of Ray have one address, the first of them.
        bundles: The bundles of the placement group that lie there, in the order of the workers.
        first: The index of its first worker.
    """

    node: Node
    bundles: tuple[int, ...]
    first: int

    @property
    def workers(self) -> range:
        """The indices of its workers."""
        return range(self.first, self.first + len(self.bundles))

    def __str__(self) -> str:
        last = self.workers[-1]
        which = f"worker {last}" if len(self.bundles) == 1 else f"workers {self.first} to {last}"
        return f"{self.node}, which has {which}"


def lay_out(placed: Mapping[int, Node], here: str | None = None) -> tuple[NodeWorkers, ...]:
    """Numbers the workers by machine, so that those of one are next to each other, as rings of collectives like it.

    Args:
        placed: Bundle -> where it lies.
        here: The address of the driver's machine, which gets the chief where it has workers: it has the files of the
            run, then.
    """
    machines: dict[str, list[int]] = {}
    for bundle in sorted(placed):
        machines.setdefault(placed[bundle].address, []).append(bundle)
    ordered = sorted(machines, key=lambda address: (address != here, _sortable(address)))
    found, first = [], 0
    for address in ordered:
        bundles = tuple(machines[address])
        found.append(NodeWorkers(placed[bundles[0]], bundles, first))
        first += len(bundles)
    return tuple(found)


def worker_list(layout: Sequence[NodeWorkers], ports: Sequence[Sequence[int]]) -> str:
    """The list of `--workers`, from the ports of each machine."""
    return str(
        Cluster(
            tuple(
                Address(machine.node.address, port)
                for machine, own in zip(layout, ports, strict=True)
                for port in own
            )
        )
    )


def _sortable(address: str) -> tuple[int, int | str]:
    try:
        return (0, int(ipaddress.ip_address(address)))
    except ValueError:
        return (1, address)
