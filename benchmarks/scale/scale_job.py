"""A job of many launchers on a few hosts: who is where, as all its processes read it from one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tfdist.cluster.cluster_spec import Address, Cluster

FIRST_PORT = 20_000
FILE = "job.json"


@dataclass(frozen=True)
class ScaleJob:
    """One launcher a worker, in equal shares on the hosts, in the order of the list.

    Attributes:
        hosts: The addresses of the hosts.
        launchers: How many launchers there are, at least as many as hosts and at least three.
        timeout: Seconds in which they must find one another.
    """

    hosts: tuple[str, ...]
    launchers: int
    timeout: float

    def host_of(self, index: int) -> int:
        """On which host a launcher runs."""
        return index * len(self.hosts) // self.launchers

    @property
    def cluster(self) -> Cluster:
        """The worker list."""
        places = [self.host_of(index) for index in range(self.launchers)]
        ports = [FIRST_PORT + index - places.index(place) for index, place in enumerate(places)]
        return Cluster(tuple(Address(self.hosts[place], port) for place, port in zip(places, ports, strict=True)))

    def threads_on(self, host: int) -> tuple[int, ...]:
        """The launchers of a host that are threads: all but the first and the last one of the job."""
        return tuple(index for index in range(1, self.launchers - 1) if self.host_of(index) == host)

    def write(self, folder: Path) -> None:
        """Writes it for the processes of the job."""
        (folder / FILE).write_text(json.dumps(vars(self)))

    @classmethod
    def read(cls, folder: Path) -> ScaleJob:
        """Reads what `write` wrote."""
        fields = json.loads((folder / FILE).read_text())
        return cls(tuple(fields["hosts"]), fields["launchers"], fields["timeout"])
