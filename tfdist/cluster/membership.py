"""Membership of a launcher in its job: the cluster, and which of its workers this launcher starts."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.cluster.cluster_spec import Cluster
from tfdist.errors import ClusterError


@dataclass(frozen=True)
class Membership:
    """The cluster as one launcher sees it.

    Attributes:
        cluster: Every worker's address; None when there is one worker, which needs none.
        local: Indices of the workers that this launcher starts, ascending, at least one.
        machine: Indices of the workers on this machine, whichever launcher starts them: they share its devices and
            cores. Includes `local`, which is the default.
        own_gpus: Whether each worker sees only GPUs that no other one uses; else the machine's workers share those that
            they see.
        ports_chosen: Whether tfdist chose the addresses, so that a port that is taken may be replaced by another.
        source: Where the cluster was given, for the log.

    Raises:
        ClusterError: The indices do not fit the cluster.
    """

    cluster: Cluster | None
    local: tuple[int, ...]
    machine: tuple[int, ...] = ()
    own_gpus: bool = False
    ports_chosen: bool = False
    source: str = "the default: one worker"

    def __post_init__(self) -> None:
        if not self.machine:
            object.__setattr__(self, "machine", self.local)
        if not self.local:
            raise ClusterError("A launcher must start at least one worker. Received: none")
        for name, indices in (("local", self.local), ("machine", self.machine)):
            if list(indices) != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= self.num_workers:
                raise ClusterError(
                    f"{name} must be ascending indices below {self.num_workers}, each once. Received: {indices}"
                )
        if not set(self.local) <= set(self.machine):
            raise ClusterError(
                f"Workers started here run on this machine. Received: local={self.local}, machine={self.machine}"
            )

    @property
    def num_workers(self) -> int:
        """Workers of the whole cluster."""
        return 1 if self.cluster is None else len(self.cluster)

    @property
    def remote(self) -> tuple[int, ...]:
        """Indices of the workers that other launchers start."""
        return tuple(index for index in range(self.num_workers) if index not in self.local)

    @property
    def has_chief(self) -> bool:
        """True if worker 0 is started here."""
        return 0 in self.local
