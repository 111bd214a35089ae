"""The cores a worker may run on: those near a part of the memory, if a machine has several, or its launcher's own.

A machine with several processors, or one that is divided, has NUMA nodes: a core reaches the memory of its own node
faster than that of the others. Linux gives a process memory of the node on which it first uses it. So a worker whose
threads stay on the cores of one node has its tensors there, too.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NODES = Path("/sys/devices/system/node")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class CoreBinding:
    """The cores of a worker.

    Attributes:
        cores: Their numbers, in order.
        workers: How many workers of the machine run on these cores, this one among them.

    Raises:
        ValueError: There are fewer cores than workers, or no workers.
    """

    cores: tuple[int, ...]
    workers: int

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= len(self.cores):
            raise ValueError(
                f"Cores are bound for workers of which each has one. Received: {self.workers} worker(s) on the cores "
                f"{self.cores}"
            )

    def bind(self) -> bool:
        """Keeps this process, and the threads that it starts from now on, on the cores; returns whether it could."""
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self.cores)
            return True
        return False

    @property
    def is_kept(self) -> bool:
        """True if this process runs on these cores alone; not where the system did not let it be bound."""
        return os.sched_getaffinity(0) <= set(self.cores)


def choose_binding(rank: int, size: int, nodes: Sequence[frozenset[int]]) -> CoreBinding | None:
    """The cores of worker `rank` of a machine's `size` workers; None where it may run on all.

    Each worker gets one node, or each node as many workers as the others, or each worker as many nodes. Where these
    numbers do not come out even, or nodes have different numbers of cores, some workers would be slower than others,
    and all would wait for them: nothing is bound.

    Args:
        rank: The worker's place among those of the machine.
        nodes: The cores of each node that workers may run on; nodes without one left out.
    """
    count = len(nodes)
    if size < 2 or count < 2 or len({len(node) for node in nodes}) > 1:
        return None
    if size % count == 0:
        workers = size // count
        mine = nodes[rank // workers]
        return CoreBinding(tuple(sorted(mine)), workers) if workers <= len(mine) else None
    if count % size == 0:
        nodes_each = count // size
        mine = frozenset().union(*nodes[rank * nodes_each : (rank + 1) * nodes_each])
        return CoreBinding(tuple(sorted(mine)), 1)
    return None


def own_cores(allowed: frozenset[int], all_cores: int, local: int, size: int) -> CoreBinding | None:
    """The cores of a launcher that may run on a part of the machine, and how many workers share them.

    It matters where other launchers start workers of the machine, too, as one for each task of Slurm does: each may
    have cores of its own. The workers of the machine are taken to be spread over all of its cores.

    Args:
        allowed: The cores on which the launcher may run.
        local: The workers that the launcher starts.

    Returns:
        None where the launcher has all cores or starts all workers, or where there are fewer cores than workers.
    """
    if local == size or len(allowed) >= all_cores:
        return None
    workers = max(local, -(-size * len(allowed) // all_cores))
    return CoreBinding(tuple(sorted(allowed)), workers) if workers <= len(allowed) else None


def usable_nodes(root: Path = _NODES) -> tuple[frozenset[int], ...]:
    """The cores of each NUMA node on which this process may run, in the nodes' order; nodes without one left out.

    Args:
        root: Where the kernel describes the nodes.
    """
    allowed = os.sched_getaffinity(0)
    names = sorted(root.glob("node[0-9]*"), key=lambda path: int(path.name.removeprefix("node")))
    nodes = (_cores_in(path / "cpulist") & allowed for path in names)
    return tuple(node for node in nodes if node)


def _cores_in(file: Path) -> frozenset[int]:
    """The numbers of a list such as `0-3,8`; none where it cannot be read."""
    try:
        found = _RANGE.findall(file.read_text())
    except OSError:
        return frozenset()
    return frozenset(number for first, last in found for number in range(int(first), int(last or first) + 1))
