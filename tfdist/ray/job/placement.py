"""Placement of a job on nodes: which workers each runs, with the workers of a node next to each other."""

from __future__ import annotations

import contextlib
import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfdist.cluster.cluster_spec import Address, Cluster
from tfdist.errors import FormingError, UsageError
from tfdist.text import format_count

Strategy = Literal["pack", "spread", "strict-pack", "strict-spread"]
_LOOK_SECONDS = 0.5
_SAY_SECONDS = 5.0


@dataclass(frozen=True)
class Node:
    """A machine of the Ray cluster."""

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


@dataclass(frozen=True)
class Demand:
    """The demand of a job on a cluster.

    Attributes:
        workers: How many.
        cpus: Cores of each.
        gpus: GPUs of each.
        strategy: How they lie on the nodes, in Ray's words.
        seconds: How long they may be waited for.

    Raises:
        UsageError: A number is not positive.
    """

    workers: int
    cpus: int = 1
    gpus: int = 0
    strategy: Strategy = "pack"
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.workers < 1 or self.cpus < 1 or self.gpus < 0:
            raise UsageError(
                "A job needs at least one worker with at least one CPU. "
                f"Received: {self.workers} worker(s), {self.cpus} CPU(s) and {self.gpus} GPU(s) each"
            )

    @property
    def bundle(self) -> dict[str, float]:
        """The resources of one worker."""
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def __str__(self) -> str:
        each = resources_text(self.bundle)
        total = resources_text({name: self.workers * count for name, count in self.bundle.items()})
        nodes = {"strict-pack": ", all on one node", "strict-spread": ", each on a node of its own"}
        return f"{format_count(self.workers, 'worker')} with {each} each, {total} in all{nodes.get(self.strategy, '')}"


def resources_text(resources: Mapping[str, float]) -> str:
    """CPUs and GPUs in words: `4 CPUs and 1 GPU`; none of them is `no CPU`."""
    counts = [(name, resources.get(name, 0)) for name in ("CPU", "GPU")]
    return " and ".join(f"{n:g} {name}{'' if n == 1 else 's'}" for name, n in counts if n) or "no CPU"


def shortage(demand: Demand, total: Mapping[str, float], free: Mapping[str, float], nodes: int) -> str:
    """Returns why a demand is not met, for people."""
    left = resources_text(free)
    are = "is" if left in ("1 CPU", "1 GPU", "no CPU") else "are"
    return (
        f"The Ray cluster has {resources_text(total)} on {format_count(nodes, 'node')}, of which {left} {are} free, "
        f"and no place for the job. Expected room for {demand}."
    )


@contextlib.contextmanager
def placed(
    ray: Any, demand: Demand, say: Callable[[str], None], check: Callable[[], None]
) -> Iterator[tuple[Any, dict[int, Node]]]:
    """Holds the resources of a job; yields Ray's placement group, and where each of its bundles lies.

    Args:
        ray: The library, connected.
        check: Called while waiting; may raise.

    Raises:
        FormingError: They were not free in time; the text says what there is.
    """
    from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

    group = placement_group([demand.bundle] * demand.workers, strategy=demand.strategy.upper().replace("-", "_"))
    try:
        _wait(ray, group, demand, say, check)
        nodes = {node["NodeID"]: node for node in ray.nodes()}
        where = placement_group_table(group)["bundles_to_node_id"]
        yield group, {int(bundle): _node(nodes[id]) for bundle, id in where.items()}
    finally:
        remove_placement_group(group)


def _wait(ray: Any, group: Any, demand: Demand, say: Callable[[str], None], check: Callable[[], None]) -> None:
    begun, has_said = time.monotonic(), False
    while not group.wait(timeout_seconds=_LOOK_SECONDS):
        check()
        waited = time.monotonic() - begun
        if waited >= demand.seconds:
            raise FormingError(
                f"{_shortage_of(ray, group, demand)} Waited: {demand.seconds:g} s. Ask for less, end other jobs, add "
                "nodes, or wait longer with --placement-timeout."
            )
        if waited >= _SAY_SECONDS and not has_said:
            say(f"waiting for resources. {_shortage_of(ray, group, demand)}")
            has_said = True


def _shortage_of(ray: Any, group: Any, demand: Demand) -> str:
    alive = sum(node["Alive"] for node in ray.nodes())
    return shortage(demand, ray.cluster_resources(), ray.available_resources(), alive)


def _node(found: Mapping[str, Any]) -> Node:
    return Node(found["NodeID"], found["NodeManagerAddress"], found["NodeManagerHostname"])
